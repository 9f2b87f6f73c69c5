//! Reading one object, and the rules about revisions that all reads share.

use muster_schema::error::FieldError;
use muster_store::{Expired, Object};

use super::{Engine, Place};
use crate::request::{ListOptions, Shown, Target};
use crate::status::{Details, Named, Status};

impl Engine {
    /// One object, in storage form. A subresource that shows something else (`scale`) is answered by
    /// [`Engine::show`].
    ///
    /// # Errors
    /// 404 when it is not there, 504 when the asked revision lies in the future.
    pub fn get(&self, target: &Target, options: &ListOptions) -> Result<Object, Status> {
        let place = self.place(target)?;
        self.get_at(&place, target, options)
    }

    /// What a GET of one object or of a subresource shows.
    ///
    /// # Errors
    /// As [`Engine::get`]; 404 for a subresource that is not served, 405 for one that cannot be read.
    pub fn show(&self, target: &Target, options: &ListOptions) -> Result<Shown, Status> {
        let place = self.place(target)?;
        if target.subresource.is_empty() {
            return self.get_at(&place, target, options).map(Shown::Object);
        }
        let sub = place.resource.subresource(place.version, &target.subresource);
        let sub = sub.ok_or_else(Status::unknown_path)?;
        if !sub.verbs.iter().any(|verb| verb == "get") {
            return Err(Status::method_not_allowed());
        }
        let object = self.get_at(&place, target, options)?;
        match target.subresource.as_str() {
            "scale" => self.scale_of(&place, &object).map(Shown::Tree),
            _ => Ok(Shown::Object(object)),
        }
    }

    fn get_at(&self, place: &Place, target: &Target, options: &ListOptions) -> Result<Object, Status> {
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

    /// Refuses a revision that lies in the future. The caller may wait and ask again:
    /// [`is_future`] recognises the refusal.
    pub(super) fn reached(&self, wanted: u64) -> Result<(), Status> {
        let current = self.inner.store.revision();
        if wanted <= current {
            return Ok(());
        }
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let cause =
            ("ResourceVersionTooLarge".to_owned(), "Too large resource version".to_owned(), String::new());
        let details = Details { causes: vec![cause], retry_after_seconds: Some(1), ..Details::default() };
        Err(Status { details, ..Status::new(504, "Timeout", message) })
    }
}

/// Whether a refusal only says that the asked revision has not been reached yet.
#[must_use]
pub fn is_future(status: &Status) -> bool {
    status.details.causes.first().is_some_and(|(reason, ..)| reason == "ResourceVersionTooLarge")
}

/// The revision a client names: none, 0 or a number.
pub(super) fn parse_revision(text: &str) -> Result<Option<u64>, FieldError> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let why = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
        FieldError::invalid("resourceVersion", text, why)
    })
}

/// A malformed revision where the real server does not expect one: reads of one object, and watches.
pub(super) fn unexpected(error: &FieldError) -> Status {
    Status::new(500, "", error.to_string())
}

/// 422 about list options.
pub(super) fn bad_options(errors: &[FieldError]) -> Status {
    Status::invalid(Named { group: "meta.k8s.io", resource: "ListOptions", name: "" }, errors)
}

/// 410 with the words of a watch.
pub(super) fn gone(expired: Expired) -> Status {
    Status::new(410, "Expired", expired.to_string())
}
