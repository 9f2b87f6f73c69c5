//! Groups that are told, not stored: somebody else in this process answers for them.
//!
//! # Invariants
//!
//! - What is asked here reaches neither store nor engine: it is no kind that anybody could watch or delete.
//! - Discovery names it beside everything else.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use hyper::body::Incoming;
use muster_schema::node::{NodeId, Schema, SchemaRef};
use muster_tree::{Text, Tree};
use tokio::time::timeout;

use super::accept::Offer;
use super::answer::{self, Reply};
use super::body;
use super::context::{Request, Shared};
use super::metrics::RequestLabels;
use super::query::Query;
use super::route::{deadline, too_slow};
use super::verb::{self, Verb};
use crate::registry::{Resource, Subresource, Version};
use crate::request::{Target, User};
use crate::status::Status;

/// One question.
#[derive(Debug)]
pub struct Question {
    /// About what.
    pub target: Target,
    /// The query.
    pub query: Query,
    /// What was sent along, with a POST.
    pub body: Option<Tree>,
    /// Who asks.
    pub user: User,
}

/// An answer to come.
pub type Telling = Pin<Box<dyn Future<Output = Result<Tree, Status>> + Send>>;

/// Answers for whole groups.
pub trait Teller: Send + Sync {
    /// What it serves; the same each time.
    fn resources(&self) -> &[Arc<Resource>];

    /// Answers a question whose path and verb are among those.
    fn answer(&self, question: Question) -> Telling;
}

/// A resource that is told.
#[derive(Debug, Clone, Copy)]
pub struct Offered {
    /// Group.
    pub group: &'static str,
    /// Versions, the preferred one first.
    pub versions: &'static [&'static str],
    /// Plural name.
    pub plural: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Whether it lives in namespaces.
    pub namespaced: bool,
    /// Verbs of the resource itself.
    pub verbs: &'static [&'static str],
    /// Parts of it that can be got, and the kinds of the answers.
    pub parts: &'static [(&'static str, &'static str)],
}

impl Offered {
    /// The same as discovery wants it.
    #[must_use]
    pub fn resource(&self) -> Arc<Resource> {
        let schema = SchemaRef { schema: Arc::new(Schema::default()), id: NodeId(0) };
        let version = |name: &&'static str| Version {
            name: Text::from(*name),
            served: true,
            schema: schema.clone(),
            verbs: self.verbs.iter().map(|it| Text::from(*it)).collect(),
            subresources: self.parts.iter().map(|part| self.part(name, part)).collect(),
            columns: Vec::new(),
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
            storage: format!("{}.{}", self.plural, self.group).into(),
            custom: true,
            strategy: Arc::new(crate::kinds::Plain),
        })
    }

    fn part(&self, version: &str, (name, kind): &(&'static str, &'static str)) -> Subresource {
        Subresource {
            name: Text::from(*name),
            response_kind: (self.group.into(), version.into(), Text::from(*kind)),
            verbs: vec!["get".into()],
            scale_paths: None,
        }
    }
}

/// Everything that discovery names: what is stored, then what is told.
pub(super) fn with_told(shared: &Shared) -> Vec<Arc<Resource>> {
    let registry = shared.engine.registry();
    let told = shared.teller.iter().flat_map(|teller| teller.resources());
    registry.all().iter().chain(told).cloned().collect()
}

/// The told resource under this path, and the place of the version.
pub(super) fn find(shared: &Shared, target: &Target) -> Option<(Arc<Resource>, usize)> {
    let mut all = shared.teller.iter().flat_map(|teller| teller.resources());
    let found = all.find(|it| it.group == target.group && it.plural == target.resource)?;
    Some((found.clone(), found.served_version(&target.version)?))
}

/// Whether something of this group is told.
pub(super) fn has_group(shared: &Shared, group: &str) -> bool {
    shared.teller.iter().flat_map(|teller| teller.resources()).any(|it| it.group == group)
}

/// Answers a request for what is told.
///
/// # Errors
/// What the one who answers refuses; 405, 406, 504.
pub(super) async fn answer(
    shared: &Shared,
    request: &Request,
    (resource, version): (Arc<Resource>, usize),
    target: Target,
    body: Incoming,
    labels: &mut RequestLabels,
) -> Result<Reply, Status> {
    let Some(teller) = &shared.teller else { return Err(Status::unknown_path()) };
    let verb = Verb::of(&request.method, &target, false).ok_or_else(Status::method_not_allowed)?;
    labels.verb = verb.word().to_owned();
    verb::check(&resource, version, &target, verb)?;
    let agreed = request.negotiate(Offer::Plain)?;
    let _room = shared.limits.enter(verb.load())?;
    let sent = if verb == Verb::Create { Some(sent(request, &resource, body).await?) } else { None };
    let code = if sent.is_some() { 201 } else { 200 };
    let (query, user) = (request.query.clone(), request.user.clone());
    let deadline = deadline(shared, request)?;
    let telling = teller.answer(Question { target, query, body: sent, user });
    let tree = timeout(deadline, telling).await.unwrap_or_else(|_| Err(too_slow(deadline)))?;
    Ok(answer::tree(code, &tree, request.style(agreed)))
}

async fn sent(request: &Request, resource: &Resource, body: Incoming) -> Result<Tree, Status> {
    let bytes = body::read(body).await?;
    let media = body::media(request.content_type(), true)?;
    let body = body::decode(media, &bytes).map_err(|why| why.status(&resource.kind))?;
    Ok(body.tree)
}
