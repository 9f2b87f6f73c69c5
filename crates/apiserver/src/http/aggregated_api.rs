//! Serves virtual groups as an aggregated API: kube-apiserver proxies their requests here. Nothing else is served.
//!
//! # Deliberately absent
//!
//! Authentication and authorization. The caller (`operator::aggregated`) performs both between
//! [`AggregatedApi::resolve`] and [`AggregatedApi::answer`].

use std::sync::Arc;

use http::Method;
use hyper::body::Incoming;
use muster_api::environment::Clock;

use super::limits::{InFlightLimits, RequestLimits};
use super::negotiation::{EndpointRestrictions, Representation};
use super::non_resource::{not_found, plain};
use super::request_info::{self, RequestInfo};
use super::response::{self, HttpResponse};
use super::server_state::RequestHead;
use super::virtual_api::{ApiProvider, ProviderDispatch, VirtualRequest, found};
use crate::discovery::{self, Root};
use crate::status::Status;

/// A request with its path and verb resolved.
pub enum AggregatedRequest {
    /// A discovery document; every authenticated user may read it.
    Document(HttpResponse),
    /// A virtual resource; the user must be authorized.
    Answer(VirtualRequest),
}

/// The handler of proxied requests.
pub struct AggregatedApi {
    provider: Arc<dyn ApiProvider>,
    limits: InFlightLimits,
    bounds: RequestLimits,
    clock: Arc<dyn Clock>,
}

impl AggregatedApi {
    pub fn new(
        provider: Arc<dyn ApiProvider>,
        bounds: RequestLimits,
        clock: Arc<dyn Clock>,
    ) -> AggregatedApi {
        AggregatedApi { provider, limits: InFlightLimits::new(&bounds), bounds, clock }
    }

    /// Resolves a path to a discovery document or a virtual resource.
    ///
    /// # Errors
    /// 400, 404, 405, 406.
    pub fn resolve(&self, request: &RequestHead, path: &str) -> Result<AggregatedRequest, Status> {
        let wrong = || Status::bad_request("the path of the request is not valid percent-encoded UTF-8");
        match request_info::parse(path).ok_or_else(wrong)? {
            RequestInfo::Path(words) => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                self.document(request, &words).map(AggregatedRequest::Document)
            }
            RequestInfo::Resource { target, .. } => {
                let place = found(self.provider.as_ref(), &target).ok_or_else(Status::unknown_path)?;
                let asked = VirtualRequest::of(request, place, target)?;
                asked.check()?;
                Ok(AggregatedRequest::Answer(asked))
            }
        }
    }

    /// # Errors
    /// The provider's rejection; 406, 429, 504.
    pub async fn answer(
        &self,
        request: &RequestHead,
        asked: VirtualRequest,
        body: Incoming,
    ) -> Result<HttpResponse, Status> {
        let (provider, limits, bound) = (self.provider.as_ref(), &self.limits, self.bounds.deadline);
        ProviderDispatch { provider, limits, bound, now: self.clock.now() }
            .dispatch(request, asked, body)
            .await
    }

    fn document(&self, request: &RequestHead, path: &[&str]) -> Result<HttpResponse, Status> {
        if !matches!(request.method, Method::GET | Method::HEAD) {
            return Err(Status::method_not_allowed());
        }
        let all = self.provider.resources();
        let document = match path {
            ["apis"] => return self.root(request),
            ["apis", group] => discovery::group(all, group),
            ["apis", group, version] => discovery::resource_list(all, group, version),
            _ => None,
        };
        document.map_or_else(|| Ok(not_found()), |it| plain(request, &it))
    }

    fn root(&self, request: &RequestHead) -> Result<HttpResponse, Status> {
        let agreed = request.negotiate(EndpointRestrictions::Discovery)?;
        let all = self.provider.resources();
        let Representation::Discovery(form) = agreed.shape else {
            return Ok(response::tree(200, &discovery::group_list(all), request.serializer(agreed)));
        };
        let bytes = discovery::aggregated(all, Root::Named, form).to_json_bytes();
        Ok(response::bytes(200, form.media_type(), bytes, false))
    }
}
