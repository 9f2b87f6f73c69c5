//! The `token` subresource of ServiceAccounts.

use muster_schema::error::FieldError;
use muster_tree::{Tree, tree};

use super::prepare::WriteContext;
use super::reviews::ServiceAccountRef;
use super::write::PreparedWrite;
use crate::request::{ReplyObject, RequestBody, WriteReply};
use crate::status::{Status, StatusObject};

const SECS: i64 = 3_600;
const SECS_MIN: i64 = 600;
const SECS_MAX: i64 = 1 << 32;

impl WriteContext<'_> {
    pub(super) fn issue_token(&self, body: &RequestBody) -> Result<PreparedWrite, Status> {
        let body = self.decoded_part(body)?;
        self.check_token_meta(&body.tree)?;
        let live = self.live().ok_or_else(|| self.not_found())?;
        let uid = live.tree.str_at(&["metadata", "uid"]);
        let asked = body.tree.str_at(&["metadata", "uid"]);
        if !asked.is_empty() && asked != uid {
            let why = format!(
                "the UID in the token request ({asked}) does not match the UID of the service account ({uid})"
            );
            return Err(Status::conflict(request_named(&self.request.target.name), &why));
        }
        let tokens =
            self.engine.inner.tokens.get().ok_or_else(|| Status::internal("no tokens are issued here"))?;
        let spec = with_defaults(body.tree.get("spec").unwrap_or(&Tree::Null), tokens.audience());
        check(&spec)?;
        let target = &self.request.target;
        let account = ServiceAccountRef { namespace: &target.namespace, name: &target.name, uid };
        let status = tokens.issue(&account, &spec)?;
        let shown = tree!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "metadata": {"name": &target.name, "namespace": &target.namespace, "uid": uid,
                "creationTimestamp": self.now.to_seconds_text()},
            "spec": spec, "status": status,
        });
        Ok(PreparedWrite::Answer(WriteReply {
            code: 201,
            shown: ReplyObject::Tree(shown),
            warnings: Vec::new(),
        }))
    }

    /// Name and namespace of the TokenRequest, if set, must be those of the ServiceAccount.
    fn check_token_meta(&self, tree: &Tree) -> Result<(), Status> {
        let target = &self.request.target;
        for (key, is) in [("name", &target.name), ("namespace", &target.namespace)] {
            let said = tree.str_at(&["metadata", key]);
            if !said.is_empty() && said != is.as_str() {
                let why = format!("must match the service account {key} if specified");
                let error = FieldError::invalid(format!("metadata.{key}"), said, why);
                return Err(Status::invalid(request_named(&target.name), &[error]));
            }
        }
        Ok(())
    }
}

fn request_named(name: &str) -> StatusObject<'_> {
    StatusObject { group: "authentication.k8s.io", resource: "TokenRequest", name }
}

fn with_defaults(spec: &Tree, audience: &str) -> Tree {
    let spec = if spec.is_map() { spec.clone() } else { Tree::empty_map() };
    let spec = match spec.get("expirationSeconds") {
        None | Some(Tree::Null) => spec.with_key("expirationSeconds", Tree::from(SECS)),
        Some(_) => spec,
    };
    let spec = if spec.items_at(&["audiences"]).is_empty() {
        spec.with_key("audiences", tree!([audience]))
    } else {
        spec
    };
    if spec.get("boundObjectRef").is_some() { spec } else { spec.with_key("boundObjectRef", Tree::Null) }
}

fn check(spec: &Tree) -> Result<(), Status> {
    let secs = spec.int_at(&["expirationSeconds"]).unwrap_or(SECS);
    let why = if secs < SECS_MIN {
        "may not specify a duration less than 10 minutes"
    } else if secs > SECS_MAX {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(());
    };
    let error = FieldError::invalid("spec.expirationSeconds", secs, why);
    Err(Status::invalid(request_named(""), &[error]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiration_seconds_is_at_least_ten_minutes() {
        for (secs, want) in [(599, false), (600, true), (SECS_MAX, true), (SECS_MAX + 1, false)] {
            let spec = with_defaults(&tree!({"expirationSeconds": secs}), "a");
            assert_eq!(check(&spec).is_ok(), want, "{secs}");
        }
        let spec = with_defaults(&Tree::Null, "a");
        assert_eq!(spec, tree!({"audiences": ["a"], "expirationSeconds": SECS, "boundObjectRef": null}));
    }
}
