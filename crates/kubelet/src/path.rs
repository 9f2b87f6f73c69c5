//! What a path asks for.

use percent_encoding::percent_decode_str;

/// What is asked of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ask {
    Healthz,
    Logs(Which),
    Exec(Which),
    Attach(Which),
    /// The container's name is empty.
    Ports(Which),
}

/// Which container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Which {
    pub namespace: String,
    pub pod: String,
    /// Only a pod with this UID.
    pub uid: Option<String>,
    pub container: String,
}

impl Which {
    /// `name_namespace`, as a kubelet names pods in messages.
    pub fn full_name(&self) -> String {
        format!("{}_{}", self.pod, self.namespace)
    }
}

/// Reads a path; `None` when there is nothing at it.
pub(crate) fn parse(path: &str) -> Option<Ask> {
    let decode = |part: &str| percent_decode_str(part).decode_utf8().ok().map(String::from);
    let parts: Vec<String> = path.split('/').filter(|p| !p.is_empty()).map(decode).collect::<Option<_>>()?;
    let words: Vec<&str> = parts.iter().map(String::as_str).collect();
    let which = |namespace: &str, pod: &str, uid: Option<&str>, container: &str| Which {
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
        uid: uid.map(str::to_owned),
        container: container.to_owned(),
    };
    Some(match words.as_slice() {
        ["healthz"] => Ask::Healthz,
        ["containerLogs", namespace, pod, container] => Ask::Logs(which(namespace, pod, None, container)),
        ["exec", namespace, pod, container] => Ask::Exec(which(namespace, pod, None, container)),
        ["exec", namespace, pod, uid, container] => Ask::Exec(which(namespace, pod, Some(uid), container)),
        ["attach", namespace, pod, container] => Ask::Attach(which(namespace, pod, None, container)),
        ["attach", namespace, pod, uid, container] => {
            Ask::Attach(which(namespace, pod, Some(uid), container))
        }
        ["portForward", namespace, pod] => Ask::Ports(which(namespace, pod, None, "")),
        ["portForward", namespace, pod, uid] => Ask::Ports(which(namespace, pod, Some(uid), "")),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let which = |uid: Option<&str>, container: &str| Which {
            namespace: "n".into(),
            pod: "p".into(),
            uid: uid.map(Into::into),
            container: container.into(),
        };
        for (path, want) in [
            ("/healthz", Some(Ask::Healthz)),
            ("/containerLogs/n/p/c", Some(Ask::Logs(which(None, "c")))),
            ("/exec/n/p/c", Some(Ask::Exec(which(None, "c")))),
            ("/exec/n/p/u/c", Some(Ask::Exec(which(Some("u"), "c")))),
            ("/attach/n/p/c/", Some(Ask::Attach(which(None, "c")))),
            ("/attach/n/p/u/c", Some(Ask::Attach(which(Some("u"), "c")))),
            ("/portForward/n/p", Some(Ask::Ports(which(None, "")))),
            ("/portForward/n/p/u", Some(Ask::Ports(which(Some("u"), "")))),
            ("/exec/%6e/p/%63", Some(Ask::Exec(which(None, "c")))),
            ("/exec/n/p/%ff", None),
            ("/containerLogs/n/p", None),
            ("/", None),
        ] {
            assert_eq!(parse(path), want, "{path}");
        }
    }
}
