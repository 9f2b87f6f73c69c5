//! Hostnames of a pod and its peers, and the hosts file.

use std::collections::BTreeMap;
use std::fmt::Write;

use muster_api::consts::CLUSTER_DOMAIN as DOMAIN;
use muster_api::paths::{host_alias, pod as path, service as service_path};
use muster_api::{endpoint_slice, meta};
use muster_tree::{Text, Tree};

const HOSTNAME_MAX: usize = 63;
/// Maximum length of a fully qualified hostname.
const FQDN_MAX: usize = 64;

/// The hostname of a pod's containers.
#[must_use]
pub fn hostname(pod: &Tree) -> String {
    let short = short_name(pod);
    match domain(pod) {
        Some(domain)
            if pod.bool_at(path::FQDN) == Some(true) && short.len() + 1 + domain.len() <= FQDN_MAX =>
        {
            format!("{short}.{domain}")
        }
        _ => short,
    }
}

fn short_name(pod: &Tree) -> String {
    let told = [path::HOSTNAME_OVERRIDE, path::HOSTNAME].into_iter().map(|it| pod.text_at(it));
    let name = told.into_iter().find(|it| !it.is_empty()).unwrap_or_else(|| meta::name(pod));
    let end = (0..=HOSTNAME_MAX.min(name.len())).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    // A truncated hostname must not end in a dash or dot.
    if end == name.len() { name.to_string() } else { name[..end].trim_end_matches(['-', '.']).to_owned() }
}

/// The domain of a pod with `subdomain`.
fn domain(pod: &Tree) -> Option<String> {
    let subdomain = pod.str_at(path::SUBDOMAIN);
    let is_overridden = !pod.str_at(path::HOSTNAME_OVERRIDE).is_empty();
    (!subdomain.is_empty() && !is_overridden)
        .then(|| format!("{subdomain}.{}.svc.{DOMAIN}", meta::namespace(pod)))
}

/// The hosts file: localhost, the pod itself, its peers, `hostAliases`.
#[must_use]
pub fn hosts(pod: &Tree, address: &str, neighbours: &[(Vec<String>, String)]) -> String {
    let mut out = String::from(
        "# Kubernetes-managed hosts file.\n\
         127.0.0.1\tlocalhost\n\
         ::1\tlocalhost ip6-localhost ip6-loopback\n\
         fe00::0\tip6-localnet\n\
         fe00::0\tip6-mcastprefix\n\
         fe00::1\tip6-allnodes\n\
         fe00::2\tip6-allrouters\n",
    );
    let short = short_name(pod);
    let names = domain(pod).map(|domain| format!("{short}.{domain}")).into_iter().chain([short.clone()]);
    let mut line = |address: &str, names: &str| {
        writeln!(out, "{address}\t{names}").expect("writing to a String cannot fail");
    };
    line(address, &names.collect::<Vec<_>>().join("\t"));
    for (names, address) in neighbours {
        line(address, &names.join("\t"));
    }
    for alias in pod.items_at(path::HOST_ALIASES) {
        let names: Vec<&str> = alias.items_at(host_alias::NAMES).iter().filter_map(Tree::as_str).collect();
        line(alias.str_at(host_alias::IP), &names.join("\t"));
    }
    out
}

/// An endpoint of a Service.
#[derive(Debug, Clone)]
pub struct ServiceEndpoint<'a> {
    pub pod: &'a Tree,
    pub address: &'a Text,
    /// `spec.hostname`, if the pod's `subdomain` is the Service.
    pub hostname: Option<&'a str>,
    /// Whether the Service name resolves to it: it is ready, or `publishNotReadyAddresses` is set.
    pub published: bool,
}

/// The pods that a Service selects, with an IP and not terminated.
#[must_use]
pub fn members<'a>(service: &Tree, pods: &'a [(Tree, Text)]) -> Vec<ServiceEndpoint<'a>> {
    let name = meta::name(service);
    let one = |(pod, address): &'a (Tree, Text)| {
        let is_its =
            meta::namespace(pod) == meta::namespace(service) && endpoint_slice::selects(service, pod);
        let endpoint =
            endpoint_slice::endpoint(service, &pod.with(path::POD_IP, address), None).filter(|_| is_its)?;
        let hostname = pod.str_at(path::HOSTNAME);
        let named = !hostname.is_empty() && pod.str_at(path::SUBDOMAIN) == name;
        let published = endpoint.bool_at(&["conditions", "ready"]) == Some(true);
        Some(ServiceEndpoint { pod, address, hostname: named.then_some(hostname), published })
    };
    pods.iter().filter_map(one).collect()
}

/// Hostnames of the pods behind headless Services of a namespace, by IP.
///
/// `<hostname>.<subdomain>` resolves as soon as the pod has an IP, the Service name to its ready pods, or to all with
/// `publishNotReadyAddresses`.
#[must_use]
pub fn neighbours(namespace: &Text, services: &[Tree], pods: &[(Tree, Text)]) -> Vec<(Vec<String>, String)> {
    let is_headless =
        |it: &&Tree| meta::namespace(it) == *namespace && it.str_at(service_path::CLUSTER_IP) == "None";
    let mut all: BTreeMap<&Text, Vec<String>> = BTreeMap::new();
    for service in services.iter().filter(is_headless) {
        let name = meta::name(service);
        for member in members(service, pods) {
            let names = all.entry(member.address).or_default();
            let own = member.hostname.map(|own| forms(&format!("{own}.{name}"), namespace));
            names.extend(own.into_iter().flatten());
            names.extend(member.published.then(|| forms(&name, namespace)).into_iter().flatten());
        }
    }
    all.retain(|_, names| !names.is_empty());
    all.into_iter().map(|(address, names)| (names, address.to_string())).collect()
}

/// The forms of a name that pods of the namespace may use, the fully qualified one first.
fn forms(name: &str, namespace: &Text) -> [String; 4] {
    let wide = format!("{name}.{namespace}");
    [format!("{wide}.svc.{DOMAIN}"), format!("{wide}.svc"), wide, name.to_owned()]
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn host_names() {
        let long = "x".repeat(62);
        for (says, spec, want) in [
            ("the pod's name", tree!({}), "p-0".to_owned()),
            ("its own", tree!({"hostname": "h"}), "h".to_owned()),
            ("with a domain it is still short", tree!({"hostname": "h", "subdomain": "s"}), "h".to_owned()),
            (
                "the whole name, if asked for",
                tree!({"hostname": "h", "subdomain": "s", "setHostnameAsFQDN": true}),
                "h.s.n.svc.cluster.local".to_owned(),
            ),
            (
                "unless it is too long",
                tree!({"hostname": long.clone(), "subdomain": "s", "setHostnameAsFQDN": true}),
                long.clone(),
            ),
            (
                "the last word",
                tree!({"hostname": "h", "subdomain": "s", "hostnameOverride": "a.b"}),
                "a.b".to_owned(),
            ),
            ("cut", tree!({"hostname": format!("{long}-abc")}), long.clone()),
        ] {
            let pod = tree!({"metadata": {"name": "p-0", "namespace": "n"}, "spec": spec});
            assert_eq!(hostname(&pod), want, "{says}");
        }
    }

    #[test]
    fn a_hosts_file() {
        let pod = tree!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"hostname": "p-0", "subdomain": "s",
            "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a", "b"]}]}});
        let text = hosts(&pod, "127.1.0.1", &[(vec!["p-1.s".into(), "p-1.s.n".into()], "127.1.0.2".into())]);
        let own: Vec<&str> = text.lines().skip(7).collect();
        assert_eq!(
            own,
            ["127.1.0.1\tp-0.s.n.svc.cluster.local\tp-0", "127.1.0.2\tp-1.s\tp-1.s.n", "1.2.3.4\ta\tb"]
        );
        assert!(text.contains("127.0.0.1\tlocalhost\n") && text.ends_with('\n'));
    }

    #[test]
    fn hostnames_of_peers() {
        let service = |name: &str, address: &str, early: bool| {
            tree!({"metadata": {"name": name, "namespace": "n"}, "spec": {"clusterIP": address,
                "selector": {"app": "x"}, "publishNotReadyAddresses": early}})
        };
        let pod = |name: &str, hostname: &str, ready: &str, phase: &str| {
            let tree = tree!({"metadata": {"name": name, "namespace": "n", "labels": {"app": "x"}},
                "spec": {"hostname": hostname, "subdomain": "s"},
                "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}});
            (tree, Text::from(format!("127.1.0.{}", name.len())))
        };
        let forms =
            |names: &[&str]| -> Vec<String> { names.iter().flat_map(|it| forms(it, &"n".into())).collect() };
        for (says, services, pods, want) in [
            (
                "ready: its own name and that of the Service",
                vec![service("s", "None", false)],
                vec![pod("a", "h", "True", "Running")],
                vec![(forms(&["h.s", "s"]), "127.1.0.1".to_owned())],
            ),
            (
                "not ready: its own name",
                vec![service("s", "None", false)],
                vec![pod("a", "h", "False", "Running")],
                vec![(forms(&["h.s"]), "127.1.0.1".to_owned())],
            ),
            (
                "not ready, and the Service does not mind",
                vec![service("s", "None", true)],
                vec![pod("a", "h", "False", "Pending"), pod("bb", "i", "False", "Pending")],
                vec![
                    (forms(&["h.s", "s"]), "127.1.0.1".to_owned()),
                    (forms(&["i.s", "s"]), "127.1.0.2".to_owned()),
                ],
            ),
            (
                "another Service is not its domain",
                vec![service("t", "None", true)],
                vec![pod("a", "h", "True", "Running")],
                vec![(forms(&["t"]), "127.1.0.1".to_owned())],
            ),
            (
                "without a host name",
                vec![service("s", "None", true)],
                vec![pod("a", "", "True", "Running")],
                vec![(forms(&["s"]), "127.1.0.1".to_owned())],
            ),
            ("ended", vec![service("s", "None", true)], vec![pod("a", "h", "False", "Succeeded")], vec![]),
            (
                "with an address of its own",
                vec![service("s", "10.0.0.1", true)],
                vec![pod("a", "h", "True", "Running")],
                vec![],
            ),
            ("no Service", vec![], vec![pod("a", "h", "True", "Running")], vec![]),
        ] {
            assert_eq!(neighbours(&"n".into(), &services, &pods), want, "{says}");
        }
        assert!(
            neighbours(&"m".into(), &[service("s", "None", true)], &[pod("a", "h", "True", "Running")])
                .is_empty()
        );
    }
}
