//! Groups that are told, not stored: somebody else in this process answers for them.
//!
//! # Invariants
//!
//! - What is asked here reaches neither store nor engine: it is no kind that anybody could watch or delete.
//! - Discovery names it beside everything else.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use muster_api::time::Time;
use muster_schema::node::{NodeId, Schema, SchemaRef};
use muster_tree::{Text, Tree};
use tokio::time::timeout;

use super::accept::{Offer, Shape};
use super::answer::{self, Reply};
use super::body;
use super::context::{Request, Shared};
use super::limits::Limits;
use super::metrics::RequestLabels;
use super::query::Query;
use super::reads::in_version;
use super::route::{deadline, too_slow};
use super::verb::{self, Verb};
use crate::registry::{Column, Resource, Subresource, Version};
use crate::request::{Target, User};
use crate::status::Status;
use crate::tables::{self, Include, ListMeta};

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

/// Several of them as one: each answers for its own groups.
pub struct Tellers {
    all: Vec<Arc<dyn Teller>>,
    resources: Vec<Arc<Resource>>,
}

impl Tellers {
    /// These as one; `None` when there is none.
    #[must_use]
    pub fn of(all: Vec<Arc<dyn Teller>>) -> Option<Arc<dyn Teller>> {
        let resources = all.iter().flat_map(|it| it.resources().to_vec()).collect();
        (!all.is_empty()).then(|| Arc::new(Tellers { all, resources }) as Arc<dyn Teller>)
    }
}

impl Teller for Tellers {
    fn resources(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    fn answer(&self, question: Question) -> Telling {
        let responsible = self.all.iter().find(|it| found(it.as_ref(), &question.target).is_some());
        match responsible {
            Some(teller) => teller.answer(question),
            None => Box::pin(std::future::ready(Err(Status::unknown_path()))),
        }
    }
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
    /// Columns of what is told, or of each item of it: heading, type, and the JSON path of the value.
    pub columns: &'static [(&'static str, &'static str, &'static str)],
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

/// Everything that discovery names: what is stored, then what is told.
pub(super) fn with_told(shared: &Shared) -> Vec<Arc<Resource>> {
    let registry = shared.engine.registry();
    let told = shared.teller.iter().flat_map(|teller| teller.resources());
    registry.all().iter().chain(told).cloned().collect()
}

/// The told resource under this path, and the place of the version.
pub(super) fn find(shared: &Shared, target: &Target) -> Option<(Arc<Resource>, usize)> {
    shared.teller.as_ref().and_then(|teller| found(teller.as_ref(), target))
}

/// The same, of one who tells.
pub(super) fn found(teller: &dyn Teller, target: &Target) -> Option<(Arc<Resource>, usize)> {
    let mut all = teller.resources().iter();
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
    place: (Arc<Resource>, usize),
    target: Target,
    body: Incoming,
    labels: &mut RequestLabels,
) -> Result<Reply, Status> {
    let Some(teller) = &shared.teller else { return Err(Status::unknown_path()) };
    let asked = Asked::of(request, place, target)?;
    labels.verb = asked.verb.word().to_owned();
    asked.check()?;
    let (teller, limits, bound) = (teller.as_ref(), &shared.limits, shared.bounds.deadline);
    Hall { teller, limits, bound, now: shared.clock.now() }.tell(request, asked, body).await
}

/// A request whose resource is told.
pub struct Asked {
    /// About what.
    pub target: Target,
    /// What it does.
    pub verb: Verb,
    resource: Arc<Resource>,
    version: usize,
}

impl Asked {
    pub(super) fn of(
        request: &Request,
        (resource, version): (Arc<Resource>, usize),
        target: Target,
    ) -> Result<Asked, Status> {
        let verb = Verb::of(&request.method, &target, false).ok_or_else(Status::method_not_allowed)?;
        Ok(Asked { target, verb, resource, version })
    }

    /// Whether the resource can be asked this.
    pub(super) fn check(&self) -> Result<(), Status> {
        verb::check(&self.resource, self.version, &self.target, self.verb)
    }
}

/// Where it is told, and within which bounds.
pub(super) struct Hall<'a> {
    pub teller: &'a dyn Teller,
    pub limits: &'a Limits,
    pub bound: Duration,
    pub now: Time,
}

impl Hall<'_> {
    pub async fn tell(&self, request: &Request, asked: Asked, body: Incoming) -> Result<Reply, Status> {
        let Asked { target, verb, resource, version } = asked;
        let agreed = request.negotiate(if matches!(verb, Verb::Get | Verb::List) {
            Offer::Told
        } else {
            Offer::Text
        })?;
        let include = Include::parse(request.query.get("includeObject").unwrap_or_default())?;
        let _room = self.limits.enter(verb.load())?;
        let sent = if verb == Verb::Create { Some(sent(request, &resource, body).await?) } else { None };
        let code = if sent.is_some() { 201 } else { 200 };
        let (query, user) = (request.query.clone(), request.user.clone());
        let deadline = deadline(self.bound, request)?;
        let telling = self.teller.answer(Question { target, query, body: sent, user });
        let told = timeout(deadline, telling).await.unwrap_or_else(|_| Err(too_slow(deadline)))?;
        let told = match agreed.shape {
            Shape::Table(of) => in_version(&self.table(&resource, version, &told, include), include, of),
            _ => told,
        };
        Ok(answer::tree(code, &told, request.style(agreed)))
    }

    /// A row for each item, or for the one object that is told.
    fn table(&self, resource: &Resource, version: usize, told: &Tree, include: Include) -> Tree {
        let objects = match told.get("items") {
            Some(items) => items.items(),
            None => std::slice::from_ref(told),
        };
        tables::table(resource, version, objects, include, self.now, &ListMeta::default())
    }
}

async fn sent(request: &Request, resource: &Resource, body: Incoming) -> Result<Tree, Status> {
    let bytes = body::read(body).await?;
    let media = body::media(request.content_type(), true)?;
    let body = body::decode(media, &bytes).map_err(|why| why.status(&resource.kind))?;
    Ok(body.tree)
}
