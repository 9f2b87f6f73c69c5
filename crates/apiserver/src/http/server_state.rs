//! State shared by all requests, and the head of one request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, Method};
use muster_api::environment::{Clock, Entropy};

use super::authentication::Authenticator;
use super::extension_route::ExtensionRoute;
use super::health::HealthCheck;
use super::kubelet_client::KubeletClient;
use super::kubelet_location::KubeletHandler;
use super::limits::{InFlightLimits, RequestLimits};
use super::metrics::ApiServerMetrics;
use super::negotiation::{self, Encoding, EndpointRestrictions, NegotiatedMedia};
use super::non_resource::DiscoveryCache;
use super::query::QueryParams;
use super::response::SerializerOptions;
use super::serialization_cache::SerializationCache;
use super::shutdown::StopSignal;
use super::virtual_api::ApiProvider;
use crate::engine::ApiEngine;
use crate::request::UserInfo;
use crate::status::Status;

pub struct ServerState {
    pub engine: ApiEngine,
    pub auth: Authenticator,
    pub limits: InFlightLimits,
    pub bounds: RequestLimits,
    pub metrics: ApiServerMetrics,
    /// Cached discovery and OpenAPI documents.
    pub discovery: DiscoveryCache,
    pub lines: Arc<SerializationCache>,
    pub checks: Vec<HealthCheck>,
    pub local_kubelets: Option<Arc<dyn KubeletHandler>>,
    pub api_provider: Option<Arc<dyn ApiProvider>>,
    pub extension_route: Option<Arc<dyn ExtensionRoute>>,
    /// The client for kubelets outside this process.
    pub dialer: KubeletClient,
    /// The address that the server listens on.
    pub address: SocketAddr,
    /// Accepted `Host` names; `None` accepts all.
    pub hosts: Option<Vec<String>>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub stop: StopSignal,
}

impl ServerState {
    /// A random duration in this range; watch timeouts use it, so that clients do not reconnect all at once.
    #[must_use]
    pub fn random_duration(&self, least: Duration, most: Duration) -> Duration {
        let mut bytes = [0_u8; 4];
        self.entropy.fill(&mut bytes);
        let part = f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX);
        least + most.saturating_sub(least).mul_f64(part)
    }
}

/// The head of a request, with its authenticated user.
pub struct RequestHead {
    pub method: Method,
    pub query: QueryParams,
    pub headers: HeaderMap,
    pub user: UserInfo,
}

impl RequestHead {
    fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    #[must_use]
    pub fn content_type(&self) -> Option<&str> {
        self.header(&CONTENT_TYPE)
    }

    #[must_use]
    pub fn user_agent(&self) -> &str {
        self.header(&USER_AGENT).unwrap_or_default()
    }

    /// Negotiates encoding and representation from the `Accept` header.
    ///
    /// # Errors
    /// 406.
    pub fn negotiate(&self, offer: EndpointRestrictions) -> Result<NegotiatedMedia, Status> {
        negotiation::negotiate(self.header(&ACCEPT), offer)
    }

    /// Whether the `Accept` header contains protobuf.
    #[must_use]
    pub fn accepts_protobuf(&self) -> bool {
        self.header(&ACCEPT).is_some_and(|header| header.contains(negotiation::PROTOBUF))
    }

    /// The serializer options of the response.
    #[must_use]
    pub fn serializer(&self, answer: NegotiatedMedia) -> SerializerOptions {
        SerializerOptions { encoding: answer.encoding, pretty: self.pretty(), gzip: self.accepts_gzip() }
    }

    /// The serializer options of an error response: an encoding that the client accepts, else JSON.
    #[must_use]
    pub fn error_serializer(&self) -> SerializerOptions {
        let encoding =
            self.negotiate(EndpointRestrictions::Plain).map_or(Encoding::Json, |agreed| agreed.encoding);
        SerializerOptions { encoding, pretty: self.pretty(), gzip: false }
    }

    /// curl, Wget and browsers get indented JSON unless `pretty` says otherwise, as from kube-apiserver.
    fn pretty(&self) -> bool {
        let agent = self.user_agent();
        let person = ["curl", "Wget", "Mozilla/5.0"].iter().any(|name| agent.starts_with(name));
        self.query.flag("pretty").unwrap_or(person)
    }

    /// Whether `Accept-Encoding` contains gzip.
    #[must_use]
    pub fn accepts_gzip(&self) -> bool {
        let codings = self.header(&ACCEPT_ENCODING).unwrap_or_default();
        codings.split(',').any(|c| c.split(';').next().unwrap_or_default().trim() == "gzip")
    }
}
