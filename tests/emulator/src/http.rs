//! HTTP/1.1 as far as a client of Cloudflare speaks it: one request read, one answer written.

use std::fmt::Write as _;
use std::io::{self, Read, Write};

use crate::answer::Answer;

/// Longest head of a request, in bytes.
const HEAD_LIMIT_BYTES: usize = 64 * 1024;
/// Longest body of a request, in bytes; Cloudflare's own limit for API calls is 100 MB.
const BODY_LIMIT_BYTES: usize = 100 * 1024 * 1024;
/// Most headers of a request.
const HEADER_LIMIT: usize = 100;

/// A request, read to its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path without the query, still percent-encoded.
    pub(crate) path: String,
    /// Query without the `?`, still percent-encoded.
    pub(crate) query: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    pub(crate) keep_alive: bool,
}

impl Request {
    /// The value of a header, by its lower-case name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The decoded query parameters in their order.
    pub(crate) fn parameters(&self) -> Vec<(String, String)> {
        self.query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                (decode_query(name), decode_query(value))
            })
            .collect()
    }
}

/// Reads the next request from a connection. `unread` carries what came beyond the last one.
///
/// `Ok(None)` when the client closed the connection between two requests.
pub(crate) fn read_request<S: Read + Write>(
    stream: &mut S,
    unread: &mut Vec<u8>,
) -> io::Result<Option<Request>> {
    let (mut request, head_length, framing) = loop {
        if let Some(head) = parse_head(unread)? {
            break head;
        }
        if unread.len() > HEAD_LIMIT_BYTES {
            return Err(malformed("the head is too long"));
        }
        if fill(stream, unread)? == 0 {
            return if unread.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
    };
    unread.drain(..head_length);
    if request.header("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let body = match framing {
        Framing::Length(length) => read_exactly(stream, unread, length)?,
        Framing::Chunked => read_chunks(stream, unread)?,
    };
    request.body = String::from_utf8(body).map_err(|_| malformed("the body is not UTF-8"))?;
    Ok(Some(request))
}

enum Framing {
    Length(usize),
    Chunked,
}

fn parse_head(bytes: &[u8]) -> io::Result<Option<(Request, usize, Framing)>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADER_LIMIT];
    let mut head = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = head.parse(bytes).map_err(malformed)? else {
        return Ok(None);
    };
    let target = head.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let headers: Vec<(String, String)> = head
        .headers
        .iter()
        .map(|header| (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).into_owned()))
        .collect();
    let mut request = Request {
        method: head.method.unwrap_or_default().to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        headers,
        body: String::new(),
        keep_alive: head.version == Some(1),
    };
    if let Some(connection) = request.header("connection") {
        request.keep_alive = !connection.eq_ignore_ascii_case("close")
            && (request.keep_alive || connection.eq_ignore_ascii_case("keep-alive"));
    }
    let chunked =
        request.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
    let framing = if chunked {
        Framing::Chunked
    } else {
        match request.header("content-length").map(str::parse) {
            None => Framing::Length(0),
            Some(Ok(length)) if length <= BODY_LIMIT_BYTES => Framing::Length(length),
            Some(_) => return Err(malformed("content-length is no length, or too long")),
        }
    };
    Ok(Some((request, length, framing)))
}

fn read_exactly<S: Read>(stream: &mut S, unread: &mut Vec<u8>, length: usize) -> io::Result<Vec<u8>> {
    while unread.len() < length {
        if fill(stream, unread)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(unread.drain(..length).collect())
}

fn read_chunks<S: Read>(stream: &mut S, unread: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(stream, unread)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(malformed)?;
        if size == 0 {
            // Trailers, up to the empty line.
            while !read_line(stream, unread)?.is_empty() {}
            return Ok(body);
        }
        if size > BODY_LIMIT_BYTES || body.len() + size > BODY_LIMIT_BYTES {
            return Err(malformed("the body is too long"));
        }
        body.extend(read_exactly(stream, unread, size)?);
        if !read_line(stream, unread)?.is_empty() {
            return Err(malformed("a chunk is longer than its size"));
        }
    }
}

fn read_line<S: Read>(stream: &mut S, unread: &mut Vec<u8>) -> io::Result<String> {
    loop {
        if let Some(end) = unread.windows(2).position(|pair| pair == b"\r\n") {
            let line: Vec<u8> = unread.drain(..end + 2).take(end).collect();
            return String::from_utf8(line).map_err(malformed);
        }
        if unread.len() > HEAD_LIMIT_BYTES {
            return Err(malformed("a line is too long"));
        }
        if fill(stream, unread)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn fill<S: Read>(stream: &mut S, unread: &mut Vec<u8>) -> io::Result<usize> {
    let mut buffer = [0; 16 * 1024];
    let count = stream.read(&mut buffer)?;
    unread.extend(buffer.iter().take(count));
    Ok(count)
}

fn malformed(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, cause)
}

/// The bytes of an answer of that `date`. `keep_alive` says whether the connection stays open after it.
pub(crate) fn answer_bytes(answer: &Answer, date: &str, keep_alive: bool) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {} {}\r\ndate: {date}\r\n", answer.status, reason(answer.status));
    let has_type = answer.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if !has_type {
        head.push_str("content-type: application/json\r\n");
    }
    for (name, value) in &answer.headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    let _ = write!(head, "content-length: {}\r\n", answer.body.len());
    head.push_str(if keep_alive { "connection: keep-alive\r\n\r\n" } else { "connection: close\r\n\r\n" });
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(answer.body.as_bytes());
    bytes
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Unnamed",
    }
}

/// Decodes `%XX` and `+` of a query; what is not UTF-8 afterwards is replaced.
fn decode_query(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let pair: Vec<u8> = rest.clone().take(2).collect();
                let value = std::str::from_utf8(&pair).ok().filter(|pair| pair.len() == 2);
                match value.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
                    Some(value) => {
                        bytes.push(value);
                        rest.nth(1);
                    }
                    None => bytes.push(b'%'),
                }
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn read_all(text: &str) -> Vec<Request> {
        let mut stream = Cursor::new(text.as_bytes().to_vec());
        let mut unread = Vec::new();
        let mut requests = Vec::new();
        while let Some(request) = read_request(&mut stream, &mut unread).unwrap() {
            requests.push(request);
        }
        requests
    }

    #[test]
    fn two_requests_on_one_connection_are_told_apart() {
        let requests = read_all(
            "PUT /a?x=1 HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}GET /b HTTP/1.1\r\nConnection: close\r\n\r\n",
        );
        let told: Vec<_> = requests
            .iter()
            .map(|r| (r.method.as_str(), r.path.as_str(), r.body.as_str(), r.keep_alive))
            .collect();
        assert_eq!(told, [("PUT", "/a", "{}", true), ("GET", "/b", "", false)]);
    }

    #[test]
    fn a_chunked_body_is_put_together() {
        let requests = read_all(
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: 1\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        );
        assert_eq!(requests[0].body, "abcde");
        assert_eq!(requests.len(), 2);
    }

    #[test]
    fn query_parameters_are_decoded() {
        let request = Request { query: "a=%C3%A4+b&c&d=100%".to_owned(), ..Request::default() };
        let expected = [("a", "ä b"), ("c", ""), ("d", "100%")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(request.parameters(), expected);
    }
}
