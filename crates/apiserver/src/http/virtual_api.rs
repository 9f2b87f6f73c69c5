//! Virtual API groups: resources without storage, answered by an [`ApiProvider`] in this process.
//!
//! # Invariants
//!
//! - Requests for a virtual resource reach neither store nor engine: it cannot be watched, written or deleted.
//! - Discovery lists virtual and stored groups together.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use muster_api::time::Time;
use muster_schema::node::{NodeId, Schema, SchemaRef};
use muster_tree::{Text, Tree};
use tokio::time::timeout;

use super::handler_chain::{deadline, too_slow};
use super::limits::InFlightLimits;
use super::metrics::RequestLabels;
use super::negotiation::{EndpointRestrictions, Representation};
use super::query::QueryParams;
use super::read_handlers::in_version;
use super::request_body;
use super::response::{self, HttpResponse};
use super::server_state::{RequestHead, ServerState};
use super::verb::{self, ApiVerb};
use crate::registry::{ApiVersion, Column, Resource, ServedSubresource};
use crate::request::{ResourcePath, UserInfo};
use crate::status::Status;
use crate::tables::{self, IncludeObject, ListMeta};

#[derive(Debug)]
pub struct ProviderRequest {
    pub target: ResourcePath,
    pub query: QueryParams,
    /// The decoded request body; only for POST.
    pub body: Option<Tree>,
    pub user: UserInfo,
}

/// The object, list or rejection that a provider returns.
pub type ProviderFuture = Pin<Box<dyn Future<Output = Result<Tree, Status>> + Send>>;

/// Serves whole API groups without storage.
pub trait ApiProvider: Send + Sync {
    /// The served resources; constant for the lifetime of the server.
    fn resources(&self) -> &[Arc<Resource>];

    /// Answers a request for one of [`Self::resources`] with a supported verb.
    fn answer(&self, question: ProviderRequest) -> ProviderFuture;
}

/// Combines providers: each serves its own groups.
pub struct ApiProviders {
    all: Vec<Arc<dyn ApiProvider>>,
    resources: Vec<Arc<Resource>>,
}

impl ApiProviders {
    /// `None` when the list is empty.
    #[must_use]
    pub fn of(all: Vec<Arc<dyn ApiProvider>>) -> Option<Arc<dyn ApiProvider>> {
        let resources = all.iter().flat_map(|it| it.resources().to_vec()).collect();
        (!all.is_empty()).then(|| Arc::new(ApiProviders { all, resources }) as Arc<dyn ApiProvider>)
    }
}

impl ApiProvider for ApiProviders {
    fn resources(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    fn answer(&self, question: ProviderRequest) -> ProviderFuture {
        let responsible = self.all.iter().find(|it| found(it.as_ref(), &question.target).is_some());
        match responsible {
            Some(provider) => provider.answer(question),
            None => Box::pin(std::future::ready(Err(Status::unknown_path()))),
        }
    }
}

/// The description of a virtual resource.
#[derive(Debug, Clone, Copy)]
pub struct VirtualResource {
    pub group: &'static str,
    /// In order of preference.
    pub versions: &'static [&'static str],
    pub plural: &'static str,
    pub kind: &'static str,
    pub namespaced: bool,
    /// Verbs of the resource, subresources excluded.
    pub verbs: &'static [&'static str],
    /// (name, response kind) of the subresources; each has the verb `get` only.
    pub subresources: &'static [(&'static str, &'static str)],
    /// (name, type, JSON path) of the printer columns, of the object or of each item of a list.
    pub columns: &'static [(&'static str, &'static str, &'static str)],
}

impl VirtualResource {
    /// The form that discovery and routing use.
    #[must_use]
    pub fn resource(&self) -> Arc<Resource> {
        let schema = SchemaRef { schema: Arc::new(Schema::default()), id: NodeId(0) };
        let version = |name: &&'static str| ApiVersion {
            name: Text::from(*name),
            served: true,
            schema: schema.clone(),
            verbs: self.verbs.iter().map(|it| Text::from(*it)).collect(),
            subresources: self.subresources.iter().map(|part| self.part(name, part)).collect(),
            columns: self.columns.iter().map(column).collect(),
            selectable_fields: Vec::new(),
            deprecation: Text::new(),
        };
        Arc::new(Resource {
            group: self.group.into(),
            plural: self.plural.into(),
            singular: self.kind.to_lowercase().into(),
            kind: self.kind.into(),
            list_kind: format!("{}List", self.kind).into(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: self.namespaced,
            versions: self.versions.iter().map(version).collect(),
            storage_version: 0,
            // Never used as a storage key: no virtual resource reaches the store.
            storage: format!("{}.{}", self.plural, self.group).into(),
            custom: true,
            strategy: Arc::new(crate::kinds::DefaultStrategy),
        })
    }

    fn part(&self, version: &str, (name, kind): &(&'static str, &'static str)) -> ServedSubresource {
        ServedSubresource {
            name: Text::from(*name),
            response_kind: (self.group.into(), version.into(), Text::from(*kind)),
            verbs: vec!["get".into()],
            scale_paths: None,
        }
    }
}

fn column((name, kind, path): &(&'static str, &'static str, &'static str)) -> Column {
    Column {
        name: Text::from(*name),
        kind: Text::from(*kind),
        format: Text::new(),
        description: Text::new(),
        priority: 0,
        path: Text::from(*path),
    }
}

/// All resources for discovery: stored ones first, then virtual ones.
pub(super) fn with_virtual(shared: &ServerState) -> Vec<Arc<Resource>> {
    let registry = shared.engine.registry();
    let object = shared.api_provider.iter().flat_map(|provider| provider.resources());
    registry.all().iter().chain(object).cloned().collect()
}

/// The virtual resource at this path, and the index of its version.
pub(super) fn find(shared: &ServerState, target: &ResourcePath) -> Option<(Arc<Resource>, usize)> {
    shared.api_provider.as_ref().and_then(|provider| found(provider.as_ref(), target))
}

/// As [`find`], for one provider.
pub(super) fn found(provider: &dyn ApiProvider, target: &ResourcePath) -> Option<(Arc<Resource>, usize)> {
    let mut all = provider.resources().iter();
    let found = all.find(|it| it.group == target.group && it.plural == target.resource)?;
    Some((found.clone(), found.served_version(&target.version)?))
}

/// Whether a provider serves this API group.
pub(super) fn has_group(shared: &ServerState, group: &str) -> bool {
    shared.api_provider.iter().flat_map(|provider| provider.resources()).any(|it| it.group == group)
}

/// Serves a request for a virtual resource.
///
/// # Errors
/// The provider's rejection; 405, 406, 504.
pub(super) async fn answer(
    shared: &ServerState,
    request: &RequestHead,
    place: (Arc<Resource>, usize),
    target: ResourcePath,
    body: Incoming,
    labels: &mut RequestLabels,
) -> Result<HttpResponse, Status> {
    let Some(provider) = &shared.api_provider else { return Err(Status::unknown_path()) };
    let resolved = VirtualRequest::of(request, place, target)?;
    labels.verb = resolved.verb.word().to_owned();
    resolved.check()?;
    let (provider, limits, bound) = (provider.as_ref(), &shared.limits, shared.bounds.deadline);
    ProviderDispatch { provider, limits, bound, now: shared.clock.now() }
        .dispatch(request, resolved, body)
        .await
}

/// A request for a virtual resource, with resource and version resolved.
pub struct VirtualRequest {
    pub target: ResourcePath,
    pub verb: ApiVerb,
    resource: Arc<Resource>,
    version: usize,
}

impl VirtualRequest {
    pub(super) fn of(
        request: &RequestHead,
        (resource, version): (Arc<Resource>, usize),
        target: ResourcePath,
    ) -> Result<VirtualRequest, Status> {
        let verb = ApiVerb::of(&request.method, &target, false).ok_or_else(Status::method_not_allowed)?;
        Ok(VirtualRequest { target, verb, resource, version })
    }

    /// Rejects verbs that the resource does not support.
    pub(super) fn check(&self) -> Result<(), Status> {
        verb::check(&self.resource, self.version, &self.target, self.verb)
    }
}

/// Calls a provider within the in-flight limits and the request timeout.
pub(super) struct ProviderDispatch<'a> {
    pub provider: &'a dyn ApiProvider,
    pub limits: &'a InFlightLimits,
    pub bound: Duration,
    pub now: Time,
}

impl ProviderDispatch<'_> {
    pub async fn dispatch(
        &self,
        request: &RequestHead,
        resolved: VirtualRequest,
        body: Incoming,
    ) -> Result<HttpResponse, Status> {
        let VirtualRequest { target, verb, resource, version } = resolved;
        let agreed = request.negotiate(if matches!(verb, ApiVerb::Get | ApiVerb::List) {
            EndpointRestrictions::Virtual
        } else {
            EndpointRestrictions::Text
        })?;
        let include = IncludeObject::parse(request.query.get("includeObject").unwrap_or_default())?;
        // Body and provider run inside the limit.
        let _room = self.limits.acquire(verb.load())?;
        let sent =
            if verb == ApiVerb::Create { Some(decode_body(request, &resource, body).await?) } else { None };
        let code = if sent.is_some() { 201 } else { 200 };
        let (query, user) = (request.query.clone(), request.user.clone());
        let deadline = deadline(self.bound, request)?;
        let response = self.provider.answer(ProviderRequest { target, query, body: sent, user });
        let object = timeout(deadline, response).await.unwrap_or_else(|_| Err(too_slow(deadline)))?;
        let object = match agreed.shape {
            Representation::Table(of) => {
                in_version(&self.table(&resource, version, &object, include), include, of)
            }
            _ => object,
        };
        Ok(response::tree(code, &object, request.serializer(agreed)))
    }

    /// Renders a Table: one row per item, or one for a single object.
    fn table(&self, resource: &Resource, version: usize, object: &Tree, include: IncludeObject) -> Tree {
        let objects = match object.get("items") {
            Some(items) => items.items(),
            None => std::slice::from_ref(object),
        };
        tables::table(resource, version, objects, include, self.now, &ListMeta::default())
    }
}

async fn decode_body(request: &RequestHead, resource: &Resource, body: Incoming) -> Result<Tree, Status> {
    let bytes = request_body::read(body).await?;
    let media = request_body::media(request.content_type(), true)?;
    let body = request_body::decode(media, &bytes).map_err(|why| why.status(&resource.kind))?;
    Ok(body.tree)
}
