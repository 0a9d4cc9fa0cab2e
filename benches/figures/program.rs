//! The program that is measured: a process against the emulator of Cloudflare, spoken to over a socket.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use cloudflare_emulator::{Emulator, Plan, Token};
use serde_json::{Value, json};

use crate::{MANY_RECORDS, Outcome, RECORDS};

const MEDIA_TYPE: &str = "application/external.dns.webhook+json;version=1";
/// A program that has not answered after so long will not.
const PATIENCE: Duration = Duration::from_secs(20);
/// The answer to one request; above the program's own deadline.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at a condition.
const GLANCE: Duration = Duration::from_millis(1);

/// Cloudflare as the program finds it: one zone and one tunnel never configured.
pub(crate) struct Account {
    pub(crate) emulator: Emulator,
    pub(crate) tunnel: String,
}

impl Account {
    const TOKEN: &str = "figures-token";

    /// The zone holds so many foreign records.
    pub(crate) fn with_records(count: usize) -> Outcome<Self> {
        let emulator = Emulator::start();
        emulator.add_token(Token::with_access(Self::TOKEN));
        let zone = emulator.add_zone("example.com", Plan::Pro);
        let tunnel = emulator.add_tunnel("figures");
        emulator.edit(|cloudflare| -> Outcome<()> {
            // Pro zones made long ago may hold more than the 3,500 records of a new one.
            cloudflare.zone_mut(&zone).record_quota = RECORDS;
            for number in 0..count {
                let name = format!("host-{number}.internal");
                let comment = format!("rack {} in the old building", number % 40);
                let record = json!({ "type": "A", "name": name, "content": "192.0.2.7", "ttl": 300, "comment": comment });
                cloudflare.add_record(&zone, record).map_err(|refusal| format!("{refusal:?}"))?;
            }
            Ok(())
        })?;
        Ok(Self { emulator, tunnel })
    }

    /// Adds records that others made to a zone of so many.
    pub(crate) fn add_foreign(&self, zone: usize, count: usize) -> Outcome<()> {
        let name = if zone == 0 { "example.com".to_owned() } else { format!("zone-{zone}.example") };
        if zone > 0 {
            self.emulator.add_zone(&name, Plan::Pro);
        }
        let records: Vec<Value> = (0..count)
            .map(|number| json!({ "type": "A", "name": format!("host-{number}.internal.{name}"), "content": "192.0.2.7", "ttl": 300, "comment": format!("rack {} in the old building", number % 40) }))
            .collect();
        self.emulator.edit(|cloudflare| cloudflare.zone_mut(&name).record_quota = MANY_RECORDS);
        self.emulator.add_records(&name, &records).map_err(|refusal| format!("{refusal:?}"))?;
        Ok(())
    }
}

/// The program as a child process, ended when dropped.
pub(crate) struct Program {
    child: Child,
    address: SocketAddr,
    pub(crate) first_answer: Duration,
}

impl Program {
    pub(crate) fn start(binary: &Path, account: &Account) -> Outcome<Self> {
        let (api, observation) = (free_port()?, free_port()?);
        let begun = Instant::now();
        let child = Command::new(binary)
            .env_clear()
            .env("CF_API_TOKEN", Account::TOKEN)
            .env("CF_API_BASE_URL", account.emulator.base_url())
            .env("CF_TUNNEL_ID", &account.tunnel)
            .env("SERVER_HOST", "127.0.0.1")
            .env("SERVER_PORT", api.to_string())
            .env("METRICS_HOST", "127.0.0.1")
            .env("METRICS_PORT", observation.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, api));
        let mut program = Self { child, address, first_answer: Duration::ZERO };
        let mut connection = program.await_listener(begun)?;
        connection.write_all(request("GET", "/", "", false).as_bytes())?;
        answer_body(connection)?;
        program.first_answer = begun.elapsed();
        program.await_readiness(SocketAddr::from((Ipv4Addr::LOCALHOST, observation)))?;
        Ok(program)
    }

    fn await_listener(&mut self, begun: Instant) -> Outcome<TcpStream> {
        loop {
            if let Ok(connection) = self.connect() {
                return Ok(connection);
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("the program ended: {status}").into());
            }
            if begun.elapsed() > PATIENCE {
                return Err("the program does not listen".into());
            }
            thread::sleep(GLANCE / 10);
        }
    }

    fn await_readiness(&self, observation: SocketAddr) -> Outcome<()> {
        let begun = Instant::now();
        loop {
            let ready = TcpStream::connect(observation).map_err(Box::from).and_then(|mut connection| {
                connection.write_all(request("GET", "/readyz", "", false).as_bytes())?;
                answer_body(connection)
            });
            match ready {
                Ok(_) => return Ok(()),
                Err(reason) if begun.elapsed() > PATIENCE => return Err(reason),
                Err(_) => thread::sleep(GLANCE),
            }
        }
    }

    pub(crate) fn connect(&self) -> io::Result<TcpStream> {
        let connection = TcpStream::connect(self.address)?;
        connection.set_read_timeout(Some(ANSWER_PATIENCE))?;
        connection.set_nodelay(true)?;
        Ok(connection)
    }

    pub(crate) fn get(&self, path: &str) -> Outcome<Vec<u8>> {
        let mut connection = self.connect()?;
        connection.write_all(request("GET", path, "", false).as_bytes())?;
        answer_body(connection)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Outcome<Vec<u8>> {
        self.post_text(path, &body.to_string())
    }

    pub(crate) fn post_text(&self, path: &str, body: &str) -> Outcome<Vec<u8>> {
        let mut connection = self.connect()?;
        connection.write_all(request("POST", path, body, false).as_bytes())?;
        answer_body(connection)
    }

    /// CPU time of all its threads so far, in user and kernel.
    pub(crate) fn cpu_time(&self) -> Outcome<Duration> {
        /// The unit of /proc on every architecture, whatever the kernel's own clock.
        const TICK: Duration = Duration::from_millis(10);
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The program's name is in brackets and may hold anything; utime and stime are the 12th and 13th field behind
        // it.
        let (_, fields) = stat.rsplit_once(')').ok_or("no name in /proc/<pid>/stat")?;
        let mut ticks = 0;
        for field in fields.split_whitespace().skip(11).take(2) {
            ticks += field.parse::<u32>()?;
        }
        Ok(TICK * ticks)
    }

    /// Resident memory now and at its highest, in KiB.
    pub(crate) fn memory_kib(&self) -> Outcome<(u64, u64)> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let field = |name: &str| -> Outcome<u64> {
            let line =
                status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line in /proc")?;
            Ok(line.trim_start_matches(':').trim().trim_end_matches(" kB").parse()?)
        };
        Ok((field("VmRSS")?, field("VmHWM")?))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

pub(crate) fn request(method: &str, path: &str, body: &str, keep: bool) -> String {
    let connection = if keep { "keep-alive" } else { "close" };
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {MEDIA_TYPE}\r\nContent-Type: {MEDIA_TYPE}\r\n\
         Content-Length: {length}\r\nConnection: {connection}\r\n\r\n{body}"
    )
}

/// The body of a 2xx answer that ends with its connection. Chunks are put together.
pub(crate) fn answer_body(mut connection: TcpStream) -> Outcome<Vec<u8>> {
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer)?;
    let end = answer
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .ok_or("an answer without an end of its head")?;
    let (head, body) = answer.split_at(end + 4);
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    if !head.starts_with("http/1.1 2") {
        return Err(format!("answered {}", head.lines().next().unwrap_or_default()).into());
    }
    if head.contains("transfer-encoding: chunked") { unchunked(body) } else { Ok(body.to_vec()) }
}

fn unchunked(mut rest: &[u8]) -> Outcome<Vec<u8>> {
    const CUT: &str = "a chunked body is cut short";
    let mut body = Vec::with_capacity(rest.len());
    loop {
        let line = rest.windows(2).position(|window| window == b"\r\n").ok_or(CUT)?;
        let (size, tail) = rest.split_at_checked(line).ok_or(CUT)?;
        let size = usize::from_str_radix(std::str::from_utf8(size)?, 16)?;
        if size == 0 {
            return Ok(body);
        }
        body.extend_from_slice(tail.get(2..size + 2).ok_or(CUT)?);
        rest = tail.get(size + 4..).ok_or(CUT)?;
    }
}

/// Reads one answer with a length from a connection that stays open.
pub(crate) fn read_kept_alive(connection: &mut TcpStream) -> Outcome<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        connection.read_exact(&mut byte)?;
        head.extend_from_slice(&byte);
    }
    let head = String::from_utf8(head)?.to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .ok_or("GET / was answered without a length")?;
    let mut body = vec![0; length.trim().parse()?];
    connection.read_exact(&mut body)?;
    Ok(())
}
