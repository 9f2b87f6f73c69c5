//! Reads of one object, and resourceVersion rules shared by all reads.

use muster_schema::error::FieldError;
use muster_store::{Expired, StoredObject};

use super::{ApiEngine, VersionedResource};
use crate::request::{ListOptions, ReplyObject, ResourcePath};
use crate::status::{Status, StatusDetails, StatusObject};

impl ApiEngine {
    /// Gets one object in storage form. A subresource of another kind (`scale`) is served by [`ApiEngine::show`].
    ///
    /// # Errors
    /// 404 when it does not exist, 504 when the requested revision lies in the future.
    pub fn get(&self, target: &ResourcePath, options: &ListOptions) -> Result<StoredObject, Status> {
        let place = self.resolve(target)?;
        self.get_at(&place, target, options)
    }

    /// Serves a GET of an object or subresource.
    ///
    /// # Errors
    /// As [`ApiEngine::get`]; 404 for an unknown subresource, 405 for one that cannot be read.
    pub fn show(&self, target: &ResourcePath, options: &ListOptions) -> Result<ReplyObject, Status> {
        let place = self.resolve(target)?;
        if target.subresource.is_empty() {
            return self.get_at(&place, target, options).map(ReplyObject::Object);
        }
        let sub = place.resource.subresource(place.version, &target.subresource);
        let sub = sub.ok_or_else(Status::unknown_path)?;
        if !sub.verbs.iter().any(|verb| verb == "get") {
            return Err(Status::method_not_allowed());
        }
        let object = self.get_at(&place, target, options)?;
        match target.subresource.as_str() {
            "scale" => self.scale_of(&place, &object).map(ReplyObject::Tree),
            _ => Ok(ReplyObject::Object(object)),
        }
    }

    fn get_at(
        &self,
        place: &VersionedResource,
        target: &ResourcePath,
        options: &ListOptions,
    ) -> Result<StoredObject, Status> {
        if !place.resource.allows(place.version, "get") {
            return Err(Status::method_not_allowed());
        }
        if let Some(revision) =
            parse_revision(&options.resource_version).map_err(|error| unexpected(&error))?
        {
            self.reached(revision)?;
        }
        let key = place.resource.key(&target.namespace, &target.name);
        let found = self.inner.store.get(&key);
        found.ok_or_else(|| Status::not_found(place.resource.named(&target.name)))
    }

    /// Rejects a revision that lies in the future. The caller may wait and retry: [`is_future`] recognizes the error.
    pub(super) fn reached(&self, wanted: u64) -> Result<(), Status> {
        let current = self.inner.store.revision();
        if wanted <= current {
            return Ok(());
        }
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let cause =
            ("ResourceVersionTooLarge".to_owned(), "Too large resource version".to_owned(), String::new());
        let details =
            StatusDetails { causes: vec![cause], retry_after_seconds: Some(1), ..StatusDetails::default() };
        Err(Status { details, ..Status::new(504, "Timeout", message) })
    }
}

/// Whether an error means that the requested revision has not been reached yet.
#[must_use]
pub fn is_future(status: &Status) -> bool {
    status.details.causes.first().is_some_and(|(reason, ..)| reason == "ResourceVersionTooLarge")
}

/// Parses a resourceVersion: empty, 0 or a number.
pub(super) fn parse_revision(text: &str) -> Result<Option<u64>, FieldError> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let why = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
        FieldError::invalid("resourceVersion", text, why)
    })
}

/// 500 for a malformed resourceVersion on gets and watches, as kube-apiserver answers there.
pub(super) fn unexpected(error: &FieldError) -> Status {
    Status::new(500, "", error.to_string())
}

pub(super) fn bad_options(errors: &[FieldError]) -> Status {
    Status::invalid(StatusObject { group: "meta.k8s.io", resource: "ListOptions", name: "" }, errors)
}

/// 410 with the message of a watch.
pub(super) fn gone(expired: Expired) -> Status {
    Status::new(410, "Expired", expired.to_string())
}
