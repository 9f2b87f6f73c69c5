//! Creating an object.

use muster_api::port::Kind;
use muster_schema::error::Problem;
use muster_schema::object::{Managed, Object};
use muster_schema::{table, validate};
use muster_store::Expect;
use muster_tree::{Text, Tree, literal};

use super::charge::beside;
use super::decode::{Decoded, Expected, decode};
use super::metadata::{Identity, anonymous, born, is_doomed};
use super::prepare::Ask;
use super::write::Prepared;
use super::{Engine, Guard, NAME_TRIES_MAX};
use crate::admission::Operation;
use crate::kinds::{Errors, Generation};
use crate::request::{Body, Target, User, WriteAct, WriteOptions, WriteRequest};
use crate::status::{Details, Status};

/// Longest base of a generated name.
const NAME_BASE_MAX: usize = 58;
/// The UID of an object that is validated and not stored: a real one would be taken from those of objects that are.
const NOT_STORED: Text = literal!("00000000-0000-0000-0000-000000000000");

/// An object on its way to be created: in storage form, with who owns what.
pub(super) struct Newcomer {
    pub tree: Tree,
    pub managed: std::sync::Arc<[Managed]>,
    pub warnings: Vec<String>,
}

impl Engine {
    /// What validation finds wrong with a new object of this kind. Admission is not asked, and nothing is stored.
    pub(super) fn problems_of_new(&self, kind: &Kind, object: &Tree) -> Result<Errors, Status> {
        let target = Target {
            group: kind.group.clone(),
            version: kind.version.clone(),
            resource: kind.plural.clone(),
            namespace: object.text_at(&["metadata", "namespace"]),
            ..Target::default()
        };
        let body = Body { tree: object.clone(), duplicates: Vec::new() };
        let (act, options) = (WriteAct::Create(body.clone()), WriteOptions::default());
        let request = WriteRequest { target, act, options, user: User::default() };
        Ask::new(self, &request, &Guard::default())?.problems_of_body(&body)
    }
}

impl Ask<'_> {
    pub fn create(&self, body: &Body) -> Result<Prepared, Status> {
        let decoded = self.decoded(body)?;
        let warnings = decoded.warnings.clone();
        self.create_decoded(decoded).map_err(|refused| refused.warned(&warnings))
    }

    fn create_decoded(&self, decoded: Decoded) -> Result<Prepared, Status> {
        self.check_place(&decoded.tree)?;
        if !decoded.tree.str_at(&["metadata", "resourceVersion"]).is_empty() {
            return Err(Status::new(500, "", "resourceVersion should not be set on objects to be created"));
        }
        let tree = self.defaulted(&anonymous(&decoded.tree), None);
        let managed = if self.is_misfit(&decoded.tree) {
            Vec::new().into()
        } else {
            self.owned(None, &self.said(&decoded.tree, tree.clone()), None)
        };
        self.create_new(Newcomer { tree, managed, warnings: decoded.warnings })
    }

    /// The body of a create or an update.
    pub fn decoded(&self, body: &Body) -> Result<Decoded, Status> {
        decode(&Expected::at(&self.place), body, &self.request.options)
    }

    /// The body of a subresource with a kind of its own.
    pub fn decoded_part(&self, body: &Body) -> Result<Decoded, Status> {
        let sub = self.place.resource.subresource(self.place.version, &self.request.target.subresource);
        let (group, version, kind) = &sub.ok_or_else(Status::unknown_path)?.response_kind;
        let schema = table::builtin().root(group, version, kind);
        let schema = schema.ok_or_else(|| Status::internal(format!("{kind} has no schema")))?;
        let expected = Expected { group, version, kind, view: schema.view(), custom: false };
        decode(&expected, body, &self.request.options)
    }

    /// The object as far as a client can own it: also empty lists that it spelled out, though they are stored as
    /// absent and shown as null.
    pub(super) fn said(&self, wire: &Tree, tree: Tree) -> Tree {
        let shown = self.written(tree, None);
        let empty = wire.entries().iter().filter(|(_, value)| value.is_list() && value.is_empty());
        empty.fold(shown, |shown, (key, value)| match shown.get(key) {
            Some(Tree::Null) => shown.with_key(key, value.clone()),
            _ => shown,
        })
    }

    /// Whether a custom resource came with a status of the wrong type: it is dropped, and so is all ownership.
    fn is_misfit(&self, wire: &Tree) -> bool {
        let resource = &self.place.resource;
        if !resource.custom || wire.get("status").is_none() || !resource.has_status(self.place.version) {
            return false;
        }
        let schema = &resource.versions[self.place.version].schema;
        let wrong = validate::validate(schema.view(), wire, None);
        wrong.iter().any(|e| e.problem == Problem::TypeInvalid && e.path.starts_with("status"))
    }

    /// The rest of a create, also of one that began as an update or an apply of a missing object.
    pub fn create_new(&self, new: Newcomer) -> Result<Prepared, Status> {
        let resource = &self.place.resource;
        let mut warnings = new.warnings;
        if resource.strategy.refuses_creates() {
            return Err(Status::method_not_allowed());
        }
        let tree = self.without_status(new.tree);
        let tree = self.mutated(Operation::Create, tree, None, &mut warnings)?;
        let (tree, name) = self.named(&tree)?;
        let cx = self.cx();
        let tree = self.written(resource.strategy.prepare_create(tree, &cx)?, None);
        self.check_errors(&name, &self.problems_of_new(&tree))?;
        self.admitted(Operation::Create, Some(&tree), None, &mut warnings)?;
        let charges = self.charges(Operation::Create, Some(&tree), None)?;
        self.check_size(&tree)?;
        warnings.extend(resource.strategy.warnings(&tree, None));
        let key = resource.key(&tree.text_at(&["metadata", "namespace"]), &name);
        if let Some(taken) = self.engine.store().newest(&key) {
            return Err(self.taken(&tree, &name, is_doomed(&taken.tree)));
        }
        let object = Object { tree, managed: new.managed, revision: 0 };
        let created = self.put(key, Expect::Absent, object, 201, warnings);
        Ok(beside(self.with_companions(created), charges))
    }

    /// What is wrong with a new object (storage form).
    fn problems_of_new(&self, tree: &Tree) -> Errors {
        let mut errors = Errors::new();
        self.check_meta_new(tree, &mut errors);
        self.check_custom(tree, None, &mut errors);
        self.place.resource.strategy.validate_create(tree, &self.cx(), &mut errors);
        errors
    }

    /// What is wrong with the object in a body that admission has not seen and that is not stored.
    fn problems_of_body(&self, body: &Body) -> Result<Errors, Status> {
        let strategy = &self.place.resource.strategy;
        let tree = self.without_status(self.defaulted(&anonymous(&self.decoded(body)?.tree), None));
        let who = Identity {
            namespace: self.request.target.namespace.clone(),
            name: tree.text_at(&["metadata", "name"]),
            uid: NOT_STORED,
            created: self.now,
            generation: (strategy.generation() != Generation::None).then_some(1),
        };
        let tree = strategy.prepare_create(born(&tree, &who), &self.cx())?;
        Ok(self.problems_of_new(&self.written(tree, None)))
    }

    /// 409 about a name that is taken; who asked for a generated one may try again.
    fn taken(&self, tree: &Tree, name: &str, leaving: bool) -> Status {
        let status = Status::already_exists(self.place.resource.named(name));
        let status = if leaving {
            Status { message: format!("object is being deleted: {}", status.message), ..status }
        } else {
            status
        };
        if tree.str_at(&["metadata", "generateName"]).is_empty() {
            return status;
        }
        let message =
            format!("{}, the server was not able to generate a unique name for the object", status.message);
        let details = Details { retry_after_seconds: Some(1), ..status.details };
        Status { message, details, ..status }
    }

    /// The namespace and name of a body must be those of the path.
    pub fn check_place(&self, tree: &Tree) -> Result<(), Status> {
        let target = &self.request.target;
        let namespace = tree.str_at(&["metadata", "namespace"]);
        if !namespace.is_empty() && namespace != target.namespace.as_str() {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        let name = tree.str_at(&["metadata", "name"]);
        if !target.name.is_empty() && !name.is_empty() && name != target.name.as_str() {
            let url = &target.name;
            return Err(Status::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({url})"
            )));
        }
        Ok(())
    }

    fn without_status(&self, tree: Tree) -> Tree {
        let resource = &self.place.resource;
        let clears = resource.has_status(self.place.version) && !resource.strategy.keeps_status_on_create();
        if clears { tree.without_key("status") } else { tree }
    }

    /// The object with its name and everything else that the server gives a new object.
    fn named(&self, tree: &Tree) -> Result<(Tree, Text), Status> {
        let resource = &self.place.resource;
        let target = &self.request.target;
        let given = tree.text_at(&["metadata", "name"]);
        let base = tree.str_at(&["metadata", "generateName"]);
        let namespace = if resource.namespaced { target.namespace.clone() } else { Text::new() };
        let name =
            if given.is_empty() && !base.is_empty() { self.fresh_name(base, &namespace)? } else { given };
        let counts = resource.strategy.generation() != Generation::None;
        let who = Identity {
            namespace,
            name: name.clone(),
            uid: self.engine.inner.uids.next(self.now, &*self.engine.inner.entropy),
            created: self.now,
            generation: counts.then_some(1),
        };
        Ok((born(tree, &who), name))
    }

    fn fresh_name(&self, base: &str, namespace: &Text) -> Result<Text, Status> {
        let cut = (0..=base.len().min(NAME_BASE_MAX)).rev().find(|n| base.is_char_boundary(*n)).unwrap_or(0);
        for _ in 0..NAME_TRIES_MAX {
            let name = Text::from(format!("{}{}", &base[..cut], self.engine.inner.entropy.name_suffix()));
            if self.engine.store().newest(&self.place.resource.key(namespace, &name)).is_none() {
                return Ok(name);
            }
        }
        Err(Status::already_exists(self.place.resource.named(base)))
    }
}
