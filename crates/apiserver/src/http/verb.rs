//! Maps HTTP methods to API verbs.

use http::Method;

use super::limits::InFlightClass;
use crate::registry::Resource;
use crate::request::ResourcePath;
use crate::status::Status;

/// The verb of a request, as in RBAC and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiVerb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl ApiVerb {
    /// The verb of a method on a path; `None` when the method is not supported there.
    #[must_use]
    pub fn of(method: &Method, target: &ResourcePath, watch: bool) -> Option<ApiVerb> {
        let collection = target.name.is_empty();
        let part = !target.subresource.is_empty();
        let verb = match method.as_str() {
            "GET" if watch && !part => ApiVerb::Watch,
            "GET" if collection => ApiVerb::List,
            "GET" => ApiVerb::Get,
            "POST" if collection || part => ApiVerb::Create,
            "PUT" if !collection => ApiVerb::Update,
            "PATCH" if !collection => ApiVerb::Patch,
            "DELETE" if collection => ApiVerb::DeleteCollection,
            "DELETE" => ApiVerb::Delete,
            _ => return None,
        };
        Some(verb)
    }

    /// The name in discovery, RBAC and metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            ApiVerb::Get => "get",
            ApiVerb::List => "list",
            ApiVerb::Watch => "watch",
            ApiVerb::Create => "create",
            ApiVerb::Update => "update",
            ApiVerb::Patch => "patch",
            ApiVerb::Delete => "delete",
            ApiVerb::DeleteCollection => "deletecollection",
        }
    }

    /// The in-flight limit that it counts against.
    #[must_use]
    pub fn load(self) -> InFlightClass {
        match self {
            ApiVerb::Watch => InFlightClass::Watch,
            ApiVerb::Get | ApiVerb::List => InFlightClass::Read,
            _ => InFlightClass::Write,
        }
    }
}

/// Checks that the resource supports the verb at this path.
///
/// # Errors
/// 404 for an unknown path, 405 for an unsupported verb.
pub fn check(
    resource: &Resource,
    version: usize,
    target: &ResourcePath,
    verb: ApiVerb,
) -> Result<(), Status> {
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
    if everywhere && !matches!(verb, ApiVerb::List | ApiVerb::Watch) {
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
        let target = |name: &str, sub: &str| ResourcePath {
            name: name.into(),
            subresource: sub.into(),
            ..ResourcePath::default()
        };
        for (method, name, sub, watch, want) in [
            ("GET", "", "", false, Some(ApiVerb::List)),
            ("GET", "", "", true, Some(ApiVerb::Watch)),
            ("GET", "a", "", true, Some(ApiVerb::Watch)),
            ("GET", "a", "status", true, Some(ApiVerb::Get)),
            ("POST", "", "", false, Some(ApiVerb::Create)),
            ("POST", "a", "", false, None),
            ("POST", "a", "binding", false, Some(ApiVerb::Create)),
            ("PUT", "", "", false, None),
            ("PUT", "a", "", false, Some(ApiVerb::Update)),
            ("PATCH", "a", "", false, Some(ApiVerb::Patch)),
            ("DELETE", "", "", false, Some(ApiVerb::DeleteCollection)),
            ("DELETE", "a", "", false, Some(ApiVerb::Delete)),
            ("HEAD", "a", "", false, None),
            ("FOO", "a", "", false, None),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(ApiVerb::of(&method, &target(name, sub), watch), want, "{method} {name} {sub}");
        }
    }
}
