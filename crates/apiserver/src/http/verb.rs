//! What a method does to a path, and whether the resource allows it.

use http::Method;

use super::limits::Load;
use crate::registry::Resource;
use crate::request::Target;
use crate::status::Status;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Read one.
    Get,
    /// Read a collection.
    List,
    /// Follow a collection or one object.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// DELETE of one.
    Delete,
    /// DELETE of a collection.
    DeleteCollection,
}

impl Verb {
    /// What a method means for a target; `None` when it means nothing.
    #[must_use]
    pub fn of(method: &Method, target: &Target, watch: bool) -> Option<Verb> {
        let collection = target.name.is_empty();
        let part = !target.subresource.is_empty();
        let verb = match method.as_str() {
            "GET" if watch && !part => Verb::Watch,
            "GET" if collection => Verb::List,
            "GET" => Verb::Get,
            "POST" if collection || part => Verb::Create,
            "PUT" if !collection => Verb::Update,
            "PATCH" if !collection => Verb::Patch,
            "DELETE" if collection => Verb::DeleteCollection,
            "DELETE" => Verb::Delete,
            _ => return None,
        };
        Some(verb)
    }

    /// Its word in discovery.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
        }
    }

    /// What kind of place it takes.
    #[must_use]
    pub fn load(self) -> Load {
        match self {
            Verb::Watch => Load::Watch,
            Verb::Get | Verb::List => Load::Read,
            _ => Load::Write,
        }
    }
}

/// Whether the resource can be asked this at this path.
///
/// # Errors
/// 404 for a path that does not exist, 405 for a verb that it does not have.
pub fn check(resource: &Resource, version: usize, target: &Target, verb: Verb) -> Result<(), Status> {
    let in_namespace = !target.namespace.is_empty();
    let needs_namespace = resource.namespaced && !target.name.is_empty();
    if (in_namespace && !resource.namespaced) || (needs_namespace && !in_namespace) {
        return Err(Status::unknown_path());
    }
    if !target.subresource.is_empty() {
        let sub = resource.subresource(version, &target.subresource).ok_or_else(Status::unknown_path)?;
        return allowed(sub.verbs.iter().any(|v| v == verb.word()));
    }
    let everywhere = resource.namespaced && !in_namespace && target.name.is_empty();
    if everywhere && !matches!(verb, Verb::List | Verb::Watch) {
        return Err(Status::method_not_allowed());
    }
    allowed(resource.allows(version, verb.word()))
}

fn allowed(is: bool) -> Result<(), Status> {
    if is { Ok(()) } else { Err(Status::method_not_allowed()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_follow_from_method_and_path() {
        let target = |name: &str, sub: &str| Target {
            name: name.into(),
            subresource: sub.into(),
            ..Target::default()
        };
        for (method, name, sub, watch, want) in [
            ("GET", "", "", false, Some(Verb::List)),
            ("GET", "", "", true, Some(Verb::Watch)),
            ("GET", "a", "", true, Some(Verb::Watch)),
            ("GET", "a", "status", true, Some(Verb::Get)),
            ("POST", "", "", false, Some(Verb::Create)),
            ("POST", "a", "", false, None),
            ("POST", "a", "binding", false, Some(Verb::Create)),
            ("PUT", "", "", false, None),
            ("PUT", "a", "", false, Some(Verb::Update)),
            ("PATCH", "a", "", false, Some(Verb::Patch)),
            ("DELETE", "", "", false, Some(Verb::DeleteCollection)),
            ("DELETE", "a", "", false, Some(Verb::Delete)),
            ("HEAD", "a", "", false, None),
            ("FOO", "a", "", false, None),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(Verb::of(&method, &target(name, sub), watch), want, "{method} {name} {sub}");
        }
    }
}
