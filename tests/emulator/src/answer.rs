//! The v4 envelope: what a call is answered.

use std::fmt;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::json::{map_member, raw, to_raw};

/// An answer before it is written to the socket.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    /// An answer with this body and no headers of its own.
    pub(crate) fn new(status: u16, body: impl Into<String>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }

    /// The same answer, but for the value of one member of its result.
    pub(crate) fn saying(&self, member: &str, value: &str) -> Self {
        let value = raw(value).expect("the value is JSON");
        let body = raw(&self.body).map(|body| {
            map_member(&body, "result", &|result| map_member(result, member, &|_| value.clone()))
        });
        let body = body.map_or_else(|_| self.body.clone(), |body| body.get().to_owned());
        Self { body, ..self.clone() }
    }
}

/// Where a page of a list stands in the whole.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct ResultInfo {
    pub(crate) count: usize,
    pub(crate) page: usize,
    pub(crate) per_page: usize,
    pub(crate) total_count: usize,
    /// Tunnels are listed without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) total_pages: Option<usize>,
}

/// What a handler found: the result, as text so that documents keep their bytes.
#[derive(Debug)]
pub(crate) struct Success {
    /// HTTP status of the answer.
    pub(crate) status: u16,
    pub(crate) result: Box<RawValue>,
    pub(crate) result_info: Option<ResultInfo>,
    pub(crate) messages: Vec<Value>,
}

impl Success {
    /// A result without paging.
    pub(crate) fn of<T: Serialize + ?Sized>(result: &T) -> Self {
        Self { status: 200, result: to_raw(result), result_info: None, messages: Vec::new() }
    }

    /// The answer around it.
    pub(crate) fn into_answer(self) -> Answer {
        #[derive(Serialize)]
        struct Envelope<'a> {
            result: &'a RawValue,
            success: bool,
            errors: [(); 0],
            messages: &'a [Value],
            #[serde(skip_serializing_if = "Option::is_none")]
            result_info: Option<ResultInfo>,
        }
        let envelope = Envelope {
            result: &self.result,
            success: true,
            errors: [],
            messages: &self.messages,
            result_info: self.result_info,
        };
        Answer::new(self.status, to_raw(&envelope).get())
    }
}

/// Why Cloudflare rejects a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status of the answer.
    pub status: u16,
    /// `code` of the one error in the envelope.
    pub code: u32,
    /// Its `message`.
    pub message: String,
    /// `error_chain` inside the error: the real cause where the error itself is only "DNS Validation Error".
    pub chain: Vec<(u32, String)>,
}

impl Refusal {
    /// A refusal without a chain.
    pub fn new(status: u16, code: u32, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), chain: Vec::new() }
    }

    /// Code 1004 with its cause, as the DNS service refuses a record.
    pub fn dns_validation(code: u32, message: impl Into<String>) -> Self {
        Self {
            status: 400,
            code: 1004,
            message: "DNS Validation Error".to_owned(),
            chain: vec![(code, message.into())],
        }
    }

    /// Code 10000: no token, not this token, or not with its permissions.
    pub(crate) fn authentication() -> Self {
        Self::new(403, 10000, "Authentication error")
    }

    /// Code 7003: no such endpoint, or an identifier of the wrong shape.
    pub(crate) fn no_route(path: &str) -> Self {
        let text = format!("Could not route to {path}, perhaps your object identifier is invalid?");
        Self::new(404, 7003, text)
    }

    /// A query parameter or a body that does not fit the endpoint.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, 1001, message)
    }

    /// The answer around it.
    pub(crate) fn into_answer(self) -> Answer {
        let Self { status, code, message, chain } = self;
        let mut error = json!({"code": code, "message": message});
        if !chain.is_empty()
            && let Some(members) = error.as_object_mut()
        {
            let chain = chain.into_iter().map(|(code, message)| json!({"code": code, "message": message}));
            members.insert("error_chain".to_owned(), chain.collect());
        }
        let body = json!({"result": null, "success": false, "errors": [error], "messages": []});
        Answer::new(status, body.to_string())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, code, message, chain } = self;
        write!(formatter, "{message} (code {code}, HTTP {status})")?;
        for (code, message) in chain {
            write!(formatter, ": {message} (code {code})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}
