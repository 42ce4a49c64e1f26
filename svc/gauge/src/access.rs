//! Where the service listens, and which requests it answers there.
//!
//! ```text
//! loopback       requests of this machine to a loopback name; a page of another host whose name resolves to the loopback is refused
//! beyond         requests with the token, in a field `Authorization: Bearer` or in the cookie that `/?token=` sets
//! Unix socket    requests of root, of the user of the service, and of the users that `--allow` names
//! ```

use axum::http::{HeaderMap, HeaderValue, header};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// The address on which the service listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A TCP port of this machine.
    Port(SocketAddr),
    /// A Unix socket.
    Socket(PathBuf),
}

impl Address {
    /// `HOST:PORT` by numbers, `localhost:PORT`, or `unix:PATH`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Address> {
        if let Some(path) = text.strip_prefix("unix:") {
            return path.starts_with('/').then(|| Address::Socket(path.into()));
        }
        let local = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
        local.as_deref().unwrap_or(text).parse().ok().map(Address::Port)
    }

    /// Whether other machines can reach it.
    #[must_use]
    pub fn is_beyond_loopback(&self) -> bool {
        matches!(self, Address::Port(address) if !address.ip().is_loopback())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Port(address) => write!(f, "http://{address}"),
            Address::Socket(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Which requests are answered.
#[derive(Clone, PartialEq, Eq)]
pub enum Access {
    /// Requests whose Host is a loopback name.
    Loopback,
    /// Requests with this token.
    Token(String),
    /// All requests: the peer was checked when it connected.
    Peers,
}

/// Debug output omits the token.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Loopback => "Loopback",
            Access::Token(_) => "Token",
            Access::Peers => "Peers",
        })
    }
}

/// The cookie in which a browser keeps the token.
const COOKIE: &str = "millpond_token";

impl Access {
    /// The reason to refuse a request. `None` if it is allowed.
    #[must_use]
    pub fn refusal(&self, headers: &HeaderMap) -> Option<&'static str> {
        match self {
            Access::Peers => None,
            Access::Loopback if names_loopback(headers) => None,
            Access::Loopback => Some("this service is for its own machine: use http://localhost"),
            Access::Token(token) if tokens(headers).any(|given| is_same(given, token)) => None,
            Access::Token(_) => Some("a token is needed: Authorization: Bearer, or /?token= in a browser"),
        }
    }

    /// The cookie for a browser whose request had the right token in its query.
    #[must_use]
    pub fn cookie(&self, query: &str) -> Option<HeaderValue> {
        let Access::Token(token) = self else { return None };
        let given = query.split('&').find_map(|part| part.strip_prefix("token="))?;
        let cookie = format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/");
        is_same(given, token).then(|| HeaderValue::from_str(&cookie).ok())?
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &header::HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn names_loopback(headers: &HeaderMap) -> bool {
    // HTTP/1.0 has no Host field, and no browser uses that version.
    let Some(host) = headers.get(header::HOST) else { return true };
    let Ok(host) = host.to_str() else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

fn tokens(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let bearer = text(headers, &header::AUTHORIZATION).and_then(|field| field.strip_prefix("Bearer "));
    let cookies = text(headers, &header::COOKIE).into_iter().flat_map(|field| field.split(';'));
    let cookies = cookies.filter_map(|cookie| cookie.trim().split_once('='));
    bearer.into_iter().chain(cookies.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value))
}

/// Compares in constant time for tokens of equal length.
fn is_same(given: &str, token: &str) -> bool {
    let differ = given.bytes().zip(token.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
    given.len() == token.len() && differ == 0
}

/// Whether a text can be a token: it has no character that ends a cookie or a header field, and at least 16 bytes.
#[must_use]
pub fn is_token(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    text.len() >= TOKEN_LEAST && text.bytes().all(is_plain)
}

/// Shorter tokens can be guessed.
pub const TOKEN_LEAST: usize = 16;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn with(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn addresses() {
        assert_eq!(Address::parse("localhost:80"), Address::parse("127.0.0.1:80"));
        assert!(Address::parse("0.0.0.0:80").unwrap().is_beyond_loopback());
        assert!(!Address::parse("[::1]:80").unwrap().is_beyond_loopback());
        assert_eq!(Address::parse("unix:/run/a"), Some(Address::Socket("/run/a".into())));
        for wrong in ["80", "unix:a", "example.com:80", ":80", ""] {
            assert_eq!(Address::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_foreign_name_of_the_loopback_is_refused() {
        let refused = |host: &str| Access::Loopback.refusal(&with(header::HOST, host)).is_some();
        for host in ["localhost", "localhost:9909", "127.0.0.1:9909", "[::1]:9909", "LOCALHOST"] {
            assert!(!refused(host), "{host}");
        }
        for host in ["evil.example:9909", "localhost.evil.example", "10.0.0.1", "127.0.0.1.evil.example", ""]
        {
            assert!(refused(host), "{host}");
        }
    }

    #[test]
    fn a_token_is_taken_from_a_field_or_a_cookie() {
        let access = Access::Token("0123456789abcdef".into());
        let refused = |name, value: &str| access.refusal(&with(name, value)).is_some();
        assert!(!refused(header::AUTHORIZATION, "Bearer 0123456789abcdef"));
        assert!(!refused(header::COOKIE, "a=b; millpond_token=0123456789abcdef"));
        assert!(refused(header::AUTHORIZATION, "Bearer 0123456789abcdeF"));
        assert!(refused(header::AUTHORIZATION, "Bearer 0123456789abcdef0"));
        assert!(refused(header::COOKIE, "other=0123456789abcdef"));
        assert!(access.refusal(&HeaderMap::new()).is_some());
        assert!(access.cookie("token=0123456789abcdef").is_some());
        assert_eq!(access.cookie("token=0123456789abcdeg"), None);
        assert_eq!(format!("{access:?}"), "Token");
    }
}
