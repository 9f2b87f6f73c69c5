use muster_api::client::Kind;
use muster_schema::error::Problem;
use muster_schema::object::{Managed, StoredObject};
use muster_schema::{table, validate};
use muster_store::ExpectedRevision;
use muster_tree::{Text, Tree, literal};

use super::decode::{DecodedBody, ExpectedKind, decode};
use super::metadata::{ServerMetadata, is_deleting, strip_server_metadata, with_server_metadata};
use super::prepare::WriteContext;
use super::quota_usage::with_writes;
use super::write::PreparedWrite;
use super::{ApiEngine, NAME_TRIES_MAX, StoragePreconditions};
use crate::admission::Operation;
use crate::kinds::{FieldErrors, GenerationRule};
use crate::request::{RequestBody, ResourcePath, UserInfo, WriteAct, WriteOptions, WriteRequest};
use crate::status::{Status, StatusDetails};

/// `generateName` is truncated to this length before the 5-character suffix is added.
const NAME_BASE_MAX: usize = 58;
/// The UID of an object that is validated but not stored: generating a real one would advance the UID sequence.
const NOT_STORED: Text = literal!("00000000-0000-0000-0000-000000000000");

/// An object to create, in storage form, with its field ownership.
pub(super) struct NewObject {
    pub tree: Tree,
    pub managed: std::sync::Arc<[Managed]>,
    pub warnings: Vec<String>,
}

impl ApiEngine {
    /// Validation errors of a new object. Skips admission and stores nothing.
    pub(super) fn problems_of_new(&self, kind: &Kind, object: &Tree) -> Result<FieldErrors, Status> {
        let target = ResourcePath {
            group: kind.group.clone(),
            version: kind.version.clone(),
            resource: kind.plural.clone(),
            namespace: object.text_at(&["metadata", "namespace"]),
            ..ResourcePath::default()
        };
        let body = RequestBody { tree: object.clone(), duplicates: Vec::new() };
        let (act, options) = (WriteAct::Create(body.clone()), WriteOptions::default());
        let request = WriteRequest { target, act, options, user: UserInfo::default() };
        WriteContext::new(self, &request, &StoragePreconditions::default())?.problems_of_body(&body)
    }
}

impl WriteContext<'_> {
    pub fn create(&self, body: &RequestBody) -> Result<PreparedWrite, Status> {
        let decoded = self.decoded(body)?;
        let warnings = decoded.warnings.clone();
        self.create_decoded(decoded).map_err(|refused| refused.with_warnings(&warnings))
    }

    fn create_decoded(&self, decoded: DecodedBody) -> Result<PreparedWrite, Status> {
        self.check_place(&decoded.tree)?;
        if !decoded.tree.str_at(&["metadata", "resourceVersion"]).is_empty() {
            return Err(Status::new(500, "", "resourceVersion should not be set on objects to be created"));
        }
        let tree = self.defaulted(&strip_server_metadata(&decoded.tree), None);
        let managed = if self.has_mistyped_status(&decoded.tree) {
            Vec::new().into()
        } else {
            self.owned(None, &self.owned_by_client(&decoded.tree, tree.clone()), None)
        };
        self.create_new(NewObject { tree, managed, warnings: decoded.warnings })
    }

    /// Decodes the body of a create or update.
    pub fn decoded(&self, body: &RequestBody) -> Result<DecodedBody, Status> {
        decode(&ExpectedKind::at(&self.place), body, &self.request.options)
    }

    /// Decodes the body of a subresource with its own kind, e.g. Binding.
    pub fn decoded_part(&self, body: &RequestBody) -> Result<DecodedBody, Status> {
        let sub = self.place.resource.subresource(self.place.version, &self.request.target.subresource);
        let (group, version, kind) = &sub.ok_or_else(Status::unknown_path)?.response_kind;
        let schema = table::builtin().root(group, version, kind);
        let schema = schema.ok_or_else(|| Status::internal(format!("{kind} has no schema")))?;
        let expected = ExpectedKind { group, version, kind, view: schema.view(), custom: false };
        decode(&expected, body, &self.request.options)
    }

    /// The fields that the client owns, including empty lists that it sent: they are stored as absent and shown as
    /// null.
    pub(super) fn owned_by_client(&self, wire: &Tree, tree: Tree) -> Tree {
        let shown = self.with_zero_values(tree, None);
        let empty = wire.entries().iter().filter(|(_, value)| value.is_list() && value.is_empty());
        empty.fold(shown, |shown, (key, value)| match shown.get(key) {
            Some(Tree::Null) => shown.with_key(key, value.clone()),
            _ => shown,
        })
    }

    /// Whether a custom resource has a status of the wrong type: kube-apiserver then drops the status and all field
    /// ownership.
    fn has_mistyped_status(&self, wire: &Tree) -> bool {
        let resource = &self.place.resource;
        if !resource.custom || wire.get("status").is_none() || !resource.has_status(self.place.version) {
            return false;
        }
        let schema = &resource.versions[self.place.version].schema;
        let wrong = validate::validate(schema.view(), wire, None);
        wrong.iter().any(|e| e.problem == Problem::TypeInvalid && e.path.starts_with("status"))
    }

    /// Completes a create, including updates and applies that create a missing object.
    pub fn create_new(&self, new: NewObject) -> Result<PreparedWrite, Status> {
        let resource = &self.place.resource;
        let mut warnings = new.warnings;
        if resource.strategy.rejects_creates() {
            return Err(Status::method_not_allowed());
        }
        let tree = self.without_status(new.tree);
        // As in kube-apiserver, mutating admission runs before the name is generated, validating admission after
        // validation.
        let tree = self.run_mutating(Operation::Create, tree, None, &mut warnings)?;
        let (tree, name) = self.with_name(&tree)?;
        let cx = self.strategy_context();
        let tree = self.with_zero_values(resource.strategy.prepare_create(tree, &cx)?, None);
        self.check_errors(&name, &self.problems_of_new(&tree))?;
        self.run_validating(Operation::Create, Some(&tree), None, &mut warnings)?;
        let charges = self.quota_writes(Operation::Create, Some(&tree), None)?;
        self.check_size(&tree)?;
        warnings.extend(resource.strategy.warnings(&tree, None));
        let key = resource.key(&tree.text_at(&["metadata", "namespace"]), &name);
        // Checked late: quota and validation errors take precedence, as in kube-apiserver, where the storage reports
        // the conflict.
        if let Some(taken) = self.engine.store().newest(&key) {
            return Err(self.name_conflict(&tree, &name, is_deleting(&taken.tree)));
        }
        let object = StoredObject { tree, managed: new.managed, revision: 0 };
        let created = self.put(key, ExpectedRevision::Absent, object, 201, warnings);
        Ok(with_writes(self.with_companions(created), charges))
    }

    /// Validates a new object (storage form).
    fn problems_of_new(&self, tree: &Tree) -> FieldErrors {
        let mut errors = FieldErrors::new();
        self.check_meta_new(tree, &mut errors);
        self.check_custom(tree, None, &mut errors);
        self.place.resource.strategy.validate_create(tree, &self.strategy_context(), &mut errors);
        errors
    }

    /// Validates the object in a body that passes neither admission nor the store.
    fn problems_of_body(&self, body: &RequestBody) -> Result<FieldErrors, Status> {
        let strategy = &self.place.resource.strategy;
        let tree =
            self.without_status(self.defaulted(&strip_server_metadata(&self.decoded(body)?.tree), None));
        let who = ServerMetadata {
            namespace: self.request.target.namespace.clone(),
            name: tree.text_at(&["metadata", "name"]),
            uid: NOT_STORED,
            created: self.now,
            generation: (strategy.generation() != GenerationRule::None).then_some(1),
        };
        let tree = strategy.prepare_create(with_server_metadata(&tree, &who), &self.strategy_context())?;
        Ok(self.problems_of_new(&self.with_zero_values(tree, None)))
    }

    /// AlreadyExists; for a generated name with `retryAfterSeconds`, so that the client retries.
    fn name_conflict(&self, tree: &Tree, name: &str, leaving: bool) -> Status {
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
        let details = StatusDetails { retry_after_seconds: Some(1), ..status.details };
        Status { message, details, ..status }
    }

    /// Namespace and name of the body must match the path.
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

    /// Adds the name and the other server-set metadata of a new object.
    fn with_name(&self, tree: &Tree) -> Result<(Tree, Text), Status> {
        let resource = &self.place.resource;
        let target = &self.request.target;
        let given = tree.text_at(&["metadata", "name"]);
        let base = tree.str_at(&["metadata", "generateName"]);
        let namespace = if resource.namespaced { target.namespace.clone() } else { Text::new() };
        let name =
            if given.is_empty() && !base.is_empty() { self.generate_name(base, &namespace)? } else { given };
        let counts = resource.strategy.generation() != GenerationRule::None;
        let who = ServerMetadata {
            namespace,
            name: name.clone(),
            uid: self.engine.inner.uids.next(self.now, &*self.engine.inner.entropy),
            created: self.now,
            generation: counts.then_some(1),
        };
        Ok((with_server_metadata(tree, &who), name))
    }

    fn generate_name(&self, base: &str, namespace: &Text) -> Result<Text, Status> {
        let cut = (0..=base.len().min(NAME_BASE_MAX)).rev().find(|n| base.is_char_boundary(*n)).unwrap_or(0);
        // The suffix is random, so a collision is rare.
        for _ in 0..NAME_TRIES_MAX {
            let name = Text::from(format!("{}{}", &base[..cut], self.engine.inner.entropy.name_suffix()));
            if self.engine.store().newest(&self.place.resource.key(namespace, &name)).is_none() {
                return Ok(name);
            }
        }
        Err(Status::already_exists(self.place.resource.named(base)))
    }
}
