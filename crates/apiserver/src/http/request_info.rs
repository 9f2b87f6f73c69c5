//! Resolves a request path to a resource or a non-resource path.
//!
//! Pure: knows only the grammar of `/api/<version>/…` and `/apis/<group>/<version>/…`. Whether the resource exists is
//! the registry's business.

use muster_tree::Text;

use crate::request::ResourcePath;

/// kube-apiserver's RequestInfo: what a path refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestInfo {
    /// An object, a subresource or a collection.
    Resource {
        target: ResourcePath,
        /// Whether the path has the deprecated `watch/` prefix.
        watch_prefix: bool,
    },
    /// A non-resource path: its non-empty segments.
    Path(Vec<String>),
}

/// Subresources of a Namespace: anything else after `/namespaces/<name>/` is a resource in it.
const NAMESPACE_PARTS: [&str; 2] = ["status", "finalize"];

/// Parses a path. `None` when a segment is not valid percent-encoded UTF-8.
#[must_use]
pub fn parse(path: &str) -> Option<RequestInfo> {
    let raw: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).collect();
    let segments: Vec<String> = raw.iter().map(|s| decode_percent(s, false)).collect::<Option<_>>()?;
    let words: Vec<&str> = segments.iter().map(String::as_str).collect();
    let found = match words.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => resource("", version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => resource(group, version, rest),
        _ => None,
    };
    Some(found.unwrap_or(RequestInfo::Path(segments)))
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Option<RequestInfo> {
    let (watch_prefix, rest) = match rest {
        ["watch", rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let (namespace, rest) = match rest {
        ["namespaces", _] => ("", rest),
        ["namespaces", _, part] if NAMESPACE_PARTS.contains(part) => ("", rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        rest => ("", rest),
    };
    let (resource, name, subresource) = match rest {
        [resource] => (*resource, "", String::new()),
        [resource, name, below @ ..] => (*resource, *name, below.join("/")),
        [] => return None,
    };
    let target = ResourcePath {
        group: Text::from(group),
        version: Text::from(version),
        resource: Text::from(resource),
        namespace: Text::from(namespace),
        name: Text::from(name),
        subresource: Text::from(subresource),
    };
    Some(RequestInfo::Resource { target, watch_prefix })
}

/// Decodes percent-encoding; with `plus`, `+` is a space as in queries. `None` when the result is not UTF-8.
#[must_use]
pub fn decode_percent(text: &str, plus: bool) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let high = char::from(bytes.next()?).to_digit(16)?;
                let low = char::from(bytes.next()?).to_digit(16)?;
                out.push(u8::try_from(high * 16 + low).expect("two hex digits are a byte"));
            }
            b'+' if plus => out.push(b' '),
            other => out.push(other),
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str) -> String {
        match parse(path) {
            None => "malformed".to_owned(),
            Some(RequestInfo::Path(segments)) => format!("path {}", segments.join(" ")),
            Some(RequestInfo::Resource { target: t, watch_prefix }) => format!(
                "{}[{}/{}] {} ns={} name={} sub={}",
                if watch_prefix { "watch " } else { "" },
                t.group,
                t.version,
                t.resource,
                t.namespace,
                t.name,
                t.subresource
            ),
        }
    }

    #[test]
    fn paths() {
        for (says, path, want) in [
            ("a collection of a namespace", "/api/v1/namespaces/a/pods", "[/v1] pods ns=a name= sub="),
            ("a collection of all namespaces", "/apis/batch/v1/jobs", "[batch/v1] jobs ns= name= sub="),
            ("an object", "/apis/batch/v1/namespaces/a/jobs/j", "[batch/v1] jobs ns=a name=j sub="),
            (
                "its status",
                "/apis/batch/v1/namespaces/a/jobs/j/status",
                "[batch/v1] jobs ns=a name=j sub=status",
            ),
            ("the namespaces themselves", "/api/v1/namespaces", "[/v1] namespaces ns= name= sub="),
            ("one namespace", "/api/v1/namespaces/a", "[/v1] namespaces ns= name=a sub="),
            (
                "a part of a namespace",
                "/api/v1/namespaces/a/finalize",
                "[/v1] namespaces ns= name=a sub=finalize",
            ),
            ("the old watch prefix", "/api/v1/watch/namespaces/a/pods", "watch [/v1] pods ns=a name= sub="),
            (
                "deeper parts are kept whole",
                "/api/v1/nodes/n/proxy/x/y",
                "[/v1] nodes ns= name=n sub=proxy/x/y",
            ),
            ("slashes at the end do not count", "/api/v1/pods/", "[/v1] pods ns= name= sub="),
            ("escapes are undone within a segment", "/api/v1/nodes/a%2Fb", "[/v1] nodes ns= name=a/b sub="),
            ("discovery", "/apis/batch/v1", "path apis batch v1"),
            ("the root", "/", "path "),
            ("half an escape", "/api/v1/nodes/a%2", "malformed"),
            ("not UTF-8", "/api/v1/nodes/%ff", "malformed"),
        ] {
            assert_eq!(shown(path), want, "{says}");
        }
    }
}
