//! Validation of the subdomain and of `managedBy`.

use muster_api::paths::jobset as path;
use muster_schema::error::FieldError;
use muster_schema::names;

use super::Answer;
use super::create::{NewSet, dns_label_errors};

const SUBDOMAIN: &str = "spec.network.subdomain";
const TOO_LONG: &str = ".spec.network.subdomain is too long, must be less than 63 characters";

pub(super) fn check(set: &NewSet<'_>, answer: &mut Answer) {
    let subdomain = set.tree().str_at(path::SUBDOMAIN);
    if !subdomain.is_empty() {
        let wrong = names::subdomain(subdomain).into_iter();
        answer.problems.extend(wrong.map(|why| FieldError::invalid(SUBDOMAIN, subdomain, why)));
        // It is also the name of the headless Service, which is a DNS-1035 label.
        answer.problems.extend(dns_label_errors(SUBDOMAIN, subdomain, TOO_LONG));
    }
    if let Some(manager) = set.tree().at(path::MANAGED_BY).and_then(|it| it.as_str()) {
        answer.problems.extend(names::manager("spec.managedBy", manager));
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::TOO_LONG;
    use crate::admission::testing::{expect, set};

    #[test]
    fn subdomains() {
        let long = "a".repeat(64);
        let at = "spec.network.subdomain: Invalid value: ";
        let subdomain = |text: &str| format!("{at}{text:?}: a lowercase RFC 1123 subdomain must consist of");
        let label = |text: &str| format!("{at}{text:?}: a DNS-1035 label must consist of");
        for (text, want) in [
            ("", vec![]),
            ("my-domain", vec![]),
            (&long[1..], vec![]),
            (&long, vec![format!("{at}{long:?}: {TOO_LONG}")]),
            ("1a", vec![label("1a")]),
            ("a.b", vec![label("a.b")]),
            ("A", vec![subdomain("A"), label("A")]),
        ] {
            let want: Vec<&str> = want.iter().map(String::as_str).collect();
            expect(&set(&tree!({"network": {"subdomain": text}})), &want);
        }
    }

    #[test]
    fn managers() {
        for (manager, want) in [
            ("acme.io/controller", None),
            ("jobset.sigs.k8s.io/jobset-controller", None),
            ("acme", Some("spec.managedBy: Invalid value: \"acme\": must be a domain-prefixed path")),
            ("", Some("spec.managedBy: Required value")),
            (
                &*format!("a/{}", "b".repeat(62)),
                Some("spec.managedBy: Too long: may not be more than 63 bytes"),
            ),
        ] {
            expect(&set(&tree!({"managedBy": manager})), &Vec::from_iter(want));
        }
    }
}
