//! What all requests share, and what is known of one of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, Method};
use muster_api::ports::{Clock, Entropy};

use super::accept::{self, Answer, Encoding, Offer};
use super::answer::Style;
use super::aside::Aside;
use super::auth::Authenticator;
use super::away::Dialer;
use super::discover::Discovery;
use super::health::Check;
use super::limits::{Bounds, Limits};
use super::lines::Lines;
use super::metrics::Metrics;
use super::nodes::NodeDoor;
use super::query::Query;
use super::stop::Stop;
use super::told::Teller;
use crate::engine::Engine;
use crate::request::User;
use crate::status::Status;

/// What all requests share.
pub struct Shared {
    /// The engine below.
    pub engine: Engine,
    /// Knows tokens.
    pub auth: Authenticator,
    /// How much may go on.
    pub limits: Limits,
    /// The bounds.
    pub bounds: Bounds,
    /// Numbers.
    pub metrics: Metrics,
    /// Discovery and OpenAPI.
    pub discovery: Discovery,
    /// Lines of watch streams.
    pub lines: Arc<Lines>,
    /// What must be ready.
    pub checks: Vec<Check>,
    /// The nodes of this process.
    pub nodes: Option<Arc<dyn NodeDoor>>,
    /// Who answers for groups that are not stored.
    pub teller: Option<Arc<dyn Teller>>,
    /// Who answers what is asked with tokens of its own.
    pub aside: Option<Arc<dyn Aside>>,
    /// The way to all others.
    pub dialer: Dialer,
    /// The address listened on.
    pub address: SocketAddr,
    /// Host names that are ours; any host when `None`.
    pub hosts: Option<Vec<String>>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub entropy: Arc<dyn Entropy>,
    /// The end.
    pub stop: Stop,
}

impl Shared {
    /// A random time between the two.
    #[must_use]
    pub fn between(&self, least: Duration, most: Duration) -> Duration {
        let mut bytes = [0_u8; 4];
        self.entropy.fill(&mut bytes);
        let part = f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX);
        least + most.saturating_sub(least).mul_f64(part)
    }
}

/// One request without its body.
pub struct Request {
    /// Method.
    pub method: Method,
    /// Query.
    pub query: Query,
    /// Headers.
    pub headers: HeaderMap,
    /// Who asks.
    pub user: User,
}

impl Request {
    fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// `Content-Type`.
    #[must_use]
    pub fn content_type(&self) -> Option<&str> {
        self.header(&CONTENT_TYPE)
    }

    /// `User-Agent`.
    #[must_use]
    pub fn user_agent(&self) -> &str {
        self.header(&USER_AGENT).unwrap_or_default()
    }

    /// Agrees on a representation.
    ///
    /// # Errors
    /// 406.
    pub fn negotiate(&self, offer: Offer) -> Result<Answer, Status> {
        accept::negotiate(self.header(&ACCEPT), offer)
    }

    /// Whether the client names protobuf among what it accepts.
    #[must_use]
    pub fn accepts_protobuf(&self) -> bool {
        self.header(&ACCEPT).is_some_and(|header| header.contains(accept::PROTOBUF))
    }

    /// How the bytes of the answer are to look.
    #[must_use]
    pub fn style(&self, answer: Answer) -> Style {
        Style { encoding: answer.encoding, pretty: self.pretty(), gzip: self.takes_gzip() }
    }

    /// The style of a refusal: what the client accepts of a plain object, JSON when that is nothing.
    #[must_use]
    pub fn plain_style(&self) -> Style {
        let encoding = self.negotiate(Offer::Plain).map_or(Encoding::Json, |agreed| agreed.encoding);
        Style { encoding, pretty: self.pretty(), gzip: false }
    }

    /// People at a terminal get indented JSON unless they say otherwise, as from the real server.
    fn pretty(&self) -> bool {
        let agent = self.user_agent();
        let person = ["curl", "Wget", "Mozilla/5.0"].iter().any(|name| agent.starts_with(name));
        self.query.flag("pretty").unwrap_or(person)
    }

    /// Whether the client takes gzip.
    #[must_use]
    pub fn takes_gzip(&self) -> bool {
        let codings = self.header(&ACCEPT_ENCODING).unwrap_or_default();
        codings.split(',').any(|c| c.split(';').next().unwrap_or_default().trim() == "gzip")
    }
}
