//! The progress endpoint: training pods POST their progress, metrics and estimated remaining time, which are applied to
//! `status.trainerStatus` of the TrainJob (KEP-2779, Trainer's status server).
//!
//! The embedded server mounts it beside its API ([`ExtensionRoute`]); an operator serves it on its own port
//! ([`server`]) and calls [`ProgressApi::answer`]. All it needs is an API connection, for TokenReviews and status writes.
//!
//! # Guarantees
//!
//! - A report is read only after a TokenReview accepted the token for the audience of exactly this TrainJob.
//! - Every reply is an object: the report as it was read, or a `Status`.
//! - With a rate limit ([`ProgressApi::with_rate_limit`]), writes never exceed it, and no request waits long for its slot.

pub mod rate_limit;
pub(crate) mod server;

use std::sync::Arc;

use http::Method;
use muster_api::client::{
    Api, ApiError, ApiObject, ApiRequest, Preconditions, RequestTarget, RequestVerb, Subresource,
};
use muster_api::token;
use muster_api::train::consts::STATUS_MANAGER;
use muster_api::train::kinds::TRAIN_JOBS;
use muster_apiserver::http::extension_route::{ExtensionFuture, ExtensionRequest, ExtensionRoute};
use muster_trainer::controller::progress::{self, BYTES_MAX, ProgressError, ProgressReport, ProgressTarget};
use muster_tree::Tree;
use tokio::sync::oneshot;

use self::rate_limit::{ProgressRateLimit, ProgressRateLimiter};

#[derive(Clone)]
pub struct ProgressApi {
    api: Arc<dyn Api>,
    rate_limiter: Option<Arc<ProgressRateLimiter>>,
}

impl ProgressApi {
    /// Writes reports to this API server.
    #[must_use]
    pub fn new(api: Arc<dyn Api>) -> ProgressApi {
        ProgressApi { api, rate_limiter: None }
    }

    /// Adds a rate limit for writes.
    #[must_use]
    pub fn with_rate_limit(self, pace: ProgressRateLimit) -> ProgressApi {
        ProgressApi { rate_limiter: Some(Arc::new(ProgressRateLimiter::new(pace))), ..self }
    }

    /// The reply to a POST: status code and body.
    pub async fn answer(&self, asked: ExtensionRequest) -> (u16, Tree) {
        match self.process(asked).await {
            Ok(echo) => (200, echo),
            Err(refused) => (refused.code, refused.body()),
        }
    }

    async fn process(&self, asked: ExtensionRequest) -> Result<Tree, ProgressError> {
        let subject = ProgressTarget::of(&asked.path).ok_or_else(not_found)?;
        let user = match asked.token {
            Some(token) => self.review_token(&subject, &token).await?,
            None => None,
        };
        subject.authorize(user.as_deref())?;
        let body = asked.body.await.map_err(|status| ProgressError {
            code: status.code,
            reason: if status.code == 413 { progress::TOO_LARGE } else { "BadRequest" },
            message: status.message,
        })?;
        let report = progress::read(&subject.namespace, &subject.name, &body)?;
        let applied = self.apply(&subject, &report).await;
        progress::reply(&report, applied)
    }

    /// The user of a token, if it is valid for reports of this TrainJob.
    async fn review_token(&self, of: &ProgressTarget, token: &str) -> Result<Option<String>, ProgressError> {
        let audience = of.audience();
        let said = self.request(token::review(&STATUS_MANAGER, token, &audience)).await;
        let said = said.map_err(|refusal| ProgressError {
            code: 500,
            reason: "InternalError",
            message: format!("reviewing the token: {}", refusal.message()),
        })?;
        Ok(token::reviewed(&said.tree, &audience).map(|user| user.to_string()))
    }

    async fn apply(&self, of: &ProgressTarget, report: &ProgressReport) -> Result<(), ApiError> {
        let Some(body) = report.apply.clone() else { return Ok(()) };
        if let Some(turns) = &self.rate_limiter {
            turns.next().await.map_err(|retry_after| ApiError::TooManyRequests { retry_after })?;
        }
        let on = RequestTarget {
            kind: TRAIN_JOBS.clone(),
            namespace: of.namespace.clone(),
            name: of.name.clone(),
            subresource: Subresource::Status,
        };
        let (by, act) = (STATUS_MANAGER.clone(), RequestVerb::Apply { body, force: true });
        self.request(ApiRequest {
            field_manager: by,
            target: on,
            preconditions: Preconditions::default(),
            verb: act,
        })
        .await
        .map(drop)
    }

    async fn request(&self, call: ApiRequest) -> Result<ApiObject, ApiError> {
        let (tell, told) = oneshot::channel();
        let reply = Box::new(move |result| {
            // The client may have disconnected meanwhile.
            let _ = tell.send(result);
        });
        self.api.send(call, reply);
        told.await.unwrap_or_else(|_| Err(ApiError::Indeterminate("the server did not answer".to_owned())))
    }
}

fn not_found() -> ProgressError {
    ProgressError { code: 404, reason: "NotFound", message: "Not found".to_owned() }
}

impl ExtensionRoute for ProgressApi {
    fn matches(&self, method: &Method, path: &str) -> bool {
        method == Method::POST && ProgressTarget::of(path).is_some()
    }

    fn body_bytes_max(&self) -> usize {
        BYTES_MAX
    }

    fn handle(&self, asked: ExtensionRequest) -> ExtensionFuture {
        let reports = self.clone();
        Box::pin(async move { ProgressApi::answer(&reports, asked).await })
    }
}
