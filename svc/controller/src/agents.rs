//! Queries the nodes: gauge runs with the agent of each node, and answers requests with the token.

use crate::status::{Heard, report_of};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Request, header};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::time::timeout;

/// The time limit for the answer of a node.
const PATIENCE: Duration = Duration::from_secs(3);
/// The longest answer. A frame of the three tables is shorter, also with thousands of CPUs.
const ANSWER_MAX: usize = 1 << 20;

/// Opens a connection for each query: queries are rare.
#[derive(Clone)]
pub(crate) struct Asker {
    client: Client<HttpConnector, Empty<Bytes>>,
    port: u16,
    token: Option<String>,
}

impl Asker {
    pub(crate) fn new(port: u16) -> Asker {
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http();
        Asker { client, port, token: None }
    }

    /// Sets the token of the next queries.
    pub(crate) fn set_token(&mut self, token: Option<String>) {
        self.token = token;
    }

    /// Queries the node at this address.
    pub(crate) async fn ask(self, at: IpAddr) -> Heard {
        let at = SocketAddr::new(at, self.port);
        match timeout(PATIENCE, self.answer(at)).await {
            Ok(Ok(heard)) => heard,
            Ok(Err(why)) => Heard::Silent(format!("{at}: {why}")),
            Err(_) => Heard::Silent(format!("{at}: no answer within {} s", PATIENCE.as_secs())),
        }
    }

    async fn answer(&self, at: SocketAddr) -> Result<Heard, String> {
        let mut request = Request::get(format!("http://{at}/api/v1/frame?tables=machine,pools,sets"));
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Empty::new()).map_err(said)?;
        let response = self.client.request(request).await.map_err(|error| root(&error))?;
        let status = response.status();
        if !status.is_success() {
            return Err(format!("gauge answers {status}"));
        }
        let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await.map_err(said)?;
        let frame = serde_json::from_slice(&body.to_bytes()).map_err(said)?;
        Ok(Heard::Said(report_of(&frame)))
    }
}

fn said(error: impl Display) -> String {
    error.to_string()
}

/// The innermost cause of an error: the error of the connection rather than that of the client.
fn root(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
