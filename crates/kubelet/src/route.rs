//! Parses request paths.

use percent_encoding::percent_decode_str;

/// An endpoint of the kubelet API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    Healthz,
    Logs(ContainerRef),
    Exec(ContainerRef),
    Attach(ContainerRef),
    /// Port-forward; the container name is empty.
    Ports(ContainerRef),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ContainerRef {
    pub namespace: String,
    pub pod: String,
    /// If set, the pod must have this UID.
    pub uid: Option<String>,
    pub container: String,
}

impl ContainerRef {
    /// `name_namespace`, the kubelet's name of a pod in messages.
    pub fn full_name(&self) -> String {
        format!("{}_{}", self.pod, self.namespace)
    }
}

/// Parses a path; `None` is 404.
pub(crate) fn parse(path: &str) -> Option<Route> {
    let decode = |part: &str| percent_decode_str(part).decode_utf8().ok().map(String::from);
    // Empty segments are ignored: clients may append a slash.
    let parts: Vec<String> = path.split('/').filter(|p| !p.is_empty()).map(decode).collect::<Option<_>>()?;
    let words: Vec<&str> = parts.iter().map(String::as_str).collect();
    let which = |namespace: &str, pod: &str, uid: Option<&str>, container: &str| ContainerRef {
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
        uid: uid.map(str::to_owned),
        container: container.to_owned(),
    };
    Some(match words.as_slice() {
        ["healthz"] => Route::Healthz,
        ["containerLogs", namespace, pod, container] => Route::Logs(which(namespace, pod, None, container)),
        ["exec", namespace, pod, container] => Route::Exec(which(namespace, pod, None, container)),
        ["exec", namespace, pod, uid, container] => Route::Exec(which(namespace, pod, Some(uid), container)),
        ["attach", namespace, pod, container] => Route::Attach(which(namespace, pod, None, container)),
        ["attach", namespace, pod, uid, container] => {
            Route::Attach(which(namespace, pod, Some(uid), container))
        }
        ["portForward", namespace, pod] => Route::Ports(which(namespace, pod, None, "")),
        ["portForward", namespace, pod, uid] => Route::Ports(which(namespace, pod, Some(uid), "")),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let which = |uid: Option<&str>, container: &str| ContainerRef {
            namespace: "n".into(),
            pod: "p".into(),
            uid: uid.map(Into::into),
            container: container.into(),
        };
        for (path, want) in [
            ("/healthz", Some(Route::Healthz)),
            ("/containerLogs/n/p/c", Some(Route::Logs(which(None, "c")))),
            ("/exec/n/p/c", Some(Route::Exec(which(None, "c")))),
            ("/exec/n/p/u/c", Some(Route::Exec(which(Some("u"), "c")))),
            ("/attach/n/p/c/", Some(Route::Attach(which(None, "c")))),
            ("/attach/n/p/u/c", Some(Route::Attach(which(Some("u"), "c")))),
            ("/portForward/n/p", Some(Route::Ports(which(None, "")))),
            ("/portForward/n/p/u", Some(Route::Ports(which(Some("u"), "")))),
            ("/exec/%6e/p/%63", Some(Route::Exec(which(None, "c")))),
            ("/exec/n/p/%ff", None),
            ("/containerLogs/n/p", None),
            ("/", None),
        ] {
            assert_eq!(parse(path), want, "{path}");
        }
    }
}
