//! The visibility API as an aggregated API server: authentication, authorization and routing for [`crate::visibility`].
//!
//! # Guarantees
//!
//! - Only requests with the front-proxy client certificate that the API server publishes are authenticated, by the user in
//!   their headers. So no token is ever reviewed here.
//! - Every request is authorized by a SubjectAccessReview.
//! - The leader answers; a standby returns 503 with Retry-After.

mod authz;
mod front_proxy_authn;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use muster_api::environment::Clock;
use muster_api::kinds;
use muster_apiserver::http::aggregated_api::{AggregatedApi, AggregatedRequest};
use muster_apiserver::http::limits::RequestLimits;
use muster_apiserver::http::query::QueryParams;
use muster_apiserver::http::response::{self, HttpResponse, SerializerOptions};
use muster_apiserver::http::server_state::RequestHead as Head;
use muster_apiserver::request::UserInfo;
use muster_apiserver::status::Status;
use muster_cluster::KubeApi;
use muster_control::queueing::visibility_query::VisibilityHandle;
use muster_install::aggregated::{AUTHENTICATION_CONFIG_MAP, AUTHENTICATION_NAMESPACE};

use self::authz::SubjectAccessReviewer;
use self::front_proxy_authn::FrontProxyAuthenticator;
use crate::certificates::WatchedObject;
use crate::ports::SystemClock;
use crate::visibility::VisibilityApi;

/// Concurrent reads, and concurrent dry-run explanations.
const READS_MAX: usize = 64;
const DRY_RUNS_MAX: usize = 16;
/// Deadline of a request.
const DEADLINE: Duration = Duration::from_secs(20);

/// Serves the requests that the API server proxies.
pub struct AggregatedEndpoint {
    api: AggregatedApi,
    authenticator: RwLock<Option<FrontProxyAuthenticator>>,
    authorizer: SubjectAccessReviewer,
    clock: Arc<dyn Clock>,
}

impl AggregatedEndpoint {
    /// Queries the loop behind `desk`; the API server of this connection authorizes.
    pub fn new(api: &KubeApi, desk: &VisibilityHandle) -> AggregatedEndpoint {
        let (clock, may): (Arc<dyn Clock>, _) = (Arc::new(SystemClock), SubjectAccessReviewer::new(api));
        let visibility = VisibilityApi::new(desk.clone(), Arc::new(may.clone()), clock.clone());
        let bounds = RequestLimits {
            reads: READS_MAX,
            writes: DRY_RUNS_MAX,
            deadline: DEADLINE,
            ..RequestLimits::default()
        };
        let handed = AggregatedApi::new(Arc::new(visibility), bounds, clock.clone());
        AggregatedEndpoint { api: handed, authenticator: RwLock::default(), authorizer: may, clock }
    }

    /// Whether this path belongs to an aggregated API.
    pub fn serves(path: &str) -> bool {
        path == "/apis" || path.starts_with("/apis/")
    }

    /// Serves one request on a connection with these client certificates.
    pub async fn serve(&self, shown: &[Vec<u8>], request: Request<Incoming>) -> HttpResponse {
        let (parts, body) = request.into_parts();
        let Some(user) = self.authenticate(shown, &parts.headers) else {
            return response::status(&Status::unauthorized(), SerializerOptions::PLAIN);
        };
        let query = QueryParams::parse(parts.uri.query().unwrap_or_default());
        let head = Head { method: parts.method, query, headers: parts.headers, user };
        let answered = self.answer(&head, parts.uri.path(), body).await;
        answered.unwrap_or_else(|status| response::status(&status, head.error_serializer()))
    }

    async fn answer(&self, head: &Head, path: &str, body: Incoming) -> Result<HttpResponse, Status> {
        let asked = match self.api.resolve(head, path)? {
            AggregatedRequest::Document(reply) => return Ok(reply),
            AggregatedRequest::Answer(asked) => asked,
        };
        self.authorizer.authorize(&head.user, &asked.target, asked.verb.word()).await?;
        self.api.answer(head, asked, body).await
    }

    fn authenticate(&self, shown: &[Vec<u8>], headers: &http::HeaderMap) -> Option<UserInfo> {
        let front = self.authenticator.read().unwrap_or_else(PoisonError::into_inner);
        front.as_ref()?.authenticate(shown, headers, self.clock.now())
    }

    /// Watches the published requestheader configuration until it is cancelled.
    pub async fn watch_front_proxy_config(&self, api: &KubeApi) {
        let mut published = WatchedObject::start(
            api,
            &kinds::CONFIG_MAPS,
            AUTHENTICATION_NAMESPACE,
            AUTHENTICATION_CONFIG_MAP,
        );
        let mut told = None;
        loop {
            published.wait_for_change().await;
            let front = FrontProxyAuthenticator::of(published.tree());
            if let Err(why) = &front
                && told.as_ref() != Some(why)
            {
                tracing::warn!("the visibility API is unavailable: {why}");
            }
            told = front.as_ref().err().cloned();
            *self.authenticator.write().unwrap_or_else(PoisonError::into_inner) = front.ok();
        }
    }
}
