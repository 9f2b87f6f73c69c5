//! `Status` objects: errors as Kubernetes clients know them.

use muster_schema::error::FieldError;
use muster_tree::{Tree, tree};

/// An error (or, for deletes, a success) with all fields of the wire form.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    pub code: u16,
    /// Machine-readable reason, e.g. `NotFound`.
    pub reason: &'static str,
    /// Human-readable; clients print it, tests compare it with kube-apiserver's.
    pub message: String,
    pub details: StatusDetails,
    /// Texts of `Warning` headers.
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatusDetails {
    /// Name of the object.
    pub name: String,
    pub group: String,
    /// Plural resource for most errors, Kind for `Invalid`.
    pub kind: String,
    /// UID of the object.
    pub uid: String,
    /// (reason, message, field) of each cause.
    pub causes: Vec<(String, String, String)>,
    pub retry_after_seconds: Option<u32>,
    /// `metadata.continue` of a 410 on a paged list.
    pub continue_token: String,
    /// Whether empty `details` are serialized, as in errors about no particular object.
    pub shown_empty: bool,
}

/// A resource and object as messages name them: `jobs.batch`, or `pods` for the core group.
#[derive(Debug, Clone, Copy)]
pub struct StatusObject<'a> {
    /// Empty for the core group.
    pub group: &'a str,
    /// Plural resource, or Kind for `Invalid`.
    pub resource: &'a str,
    pub name: &'a str,
}

impl StatusObject<'_> {
    fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.resource.to_owned()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }

    fn details(&self) -> StatusDetails {
        StatusDetails {
            name: self.name.to_owned(),
            group: self.group.to_owned(),
            kind: self.resource.to_owned(),
            ..StatusDetails::default()
        }
    }
}

impl Status {
    /// An error without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: StatusDetails::default(),
            warnings: Vec::new(),
        }
    }

    /// An error about no particular object: it has empty `details`.
    pub fn general(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        let details = StatusDetails { shown_empty: true, ..StatusDetails::default() };
        Self { details, ..Self::new(code, reason, message) }
    }

    /// Adds warnings, which clients get with an error, too.
    #[must_use]
    pub fn with_warnings(self, warnings: &[String]) -> Self {
        Self { warnings: warnings.iter().cloned().chain(self.warnings).collect(), ..self }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    #[must_use]
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 403 for an object.
    #[must_use]
    pub fn forbidden(on: StatusObject<'_>, why: &str) -> Self {
        let message = format!("{} {:?} is forbidden: {why}", on.qualified(), on.name);
        Self { details: on.details(), ..Self::new(403, "Forbidden", message) }
    }

    /// 404 for an object.
    #[must_use]
    pub fn not_found(on: StatusObject<'_>) -> Self {
        let message = format!("{} {:?} not found", on.qualified(), on.name);
        Self { details: on.details(), ..Self::new(404, "NotFound", message) }
    }

    /// 404 for an unknown path.
    #[must_use]
    pub fn unknown_path() -> Self {
        Self::general(404, "NotFound", "the server could not find the requested resource")
    }

    #[must_use]
    pub fn method_not_allowed() -> Self {
        Self::general(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    #[must_use]
    pub fn already_exists(on: StatusObject<'_>) -> Self {
        let message = format!("{} {:?} already exists", on.qualified(), on.name);
        Self { details: on.details(), ..Self::new(409, "AlreadyExists", message) }
    }

    /// 409 Conflict with a cause.
    #[must_use]
    pub fn conflict(on: StatusObject<'_>, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {:?}: {why}", on.qualified(), on.name);
        Self { details: on.details(), ..Self::new(409, "Conflict", message) }
    }

    /// 409 Conflict for a stale resourceVersion.
    #[must_use]
    pub fn stale_resource_version(on: StatusObject<'_>) -> Self {
        Self::conflict(
            on,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 422 with field errors; `on.resource` is the Kind.
    #[must_use]
    pub fn invalid(on: StatusObject<'_>, errors: &[FieldError]) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for text in errors.iter().map(ToString::to_string) {
            // The message lists equal errors once, as Go's `Aggregate`; `causes` lists all.
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let all = if texts.len() == 1 { texts[0].clone() } else { format!("[{}]", texts.join(", ")) };
        let message = format!("{} {:?} is invalid: {all}", on.qualified(), on.name);
        let mut details = on.details();
        details.causes =
            errors.iter().map(|e| (e.problem.reason().to_owned(), e.message(), e.path.clone())).collect();
        Self { details, ..Self::new(422, "Invalid", message) }
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {}", message.into()))
    }

    #[must_use]
    pub fn to_tree(&self) -> Tree {
        let details = self.details_tree();
        let meta = if self.details.continue_token.is_empty() {
            Tree::empty_map()
        } else {
            tree!({"continue": self.details.continue_token.as_str()})
        };
        let word = if self.code < 400 { "Success" } else { "Failure" };
        let mut status = tree!({"apiVersion": "v1", "kind": "Status", "metadata": meta, "status": word});
        // A 200 has no `code` in its body, as upstream.
        if self.code != 200 {
            status = status.with(&["code"], i64::from(self.code));
        }
        if self.code >= 400 {
            status = status.with(&["message"], self.message.as_str());
            if !self.reason.is_empty() {
                status = status.with(&["reason"], self.reason);
            }
        }
        // Successful creates have a code in the body; other successes do not.
        if self.code == 201 {
            status = status.with(&["code"], 201);
        }
        if details.is_empty() && !self.details.shown_empty {
            status
        } else {
            status.with(&["details"], details)
        }
    }

    fn details_tree(&self) -> Tree {
        let d = &self.details;
        let mut entries: Vec<(&str, Tree)> = Vec::new();
        for (key, text) in [("name", &d.name), ("group", &d.group), ("kind", &d.kind), ("uid", &d.uid)] {
            if !text.is_empty() {
                entries.push((key, Tree::from(text)));
            }
        }
        if !d.causes.is_empty() {
            let cause = |(reason, message, field): &(String, String, String)| {
                let all = [("reason", reason), ("message", message), ("field", field)];
                Tree::map(all.into_iter().filter(|(_, text)| !text.is_empty()))
            };
            entries.push(("causes", Tree::list(d.causes.iter().map(cause))));
        }
        if let Some(secs) = d.retry_after_seconds {
            entries.push(("retryAfterSeconds", Tree::from(secs)));
        }
        Tree::map(entries)
    }
}
