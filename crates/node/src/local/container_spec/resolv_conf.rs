//! The `resolv.conf` of a pod, from `dnsPolicy` and `dnsConfig`.
//!
//! A pod with the host's resolvers, or without mount namespaces, has no file of its own: it reads the host's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_api::consts::CLUSTER_DOMAIN;
use muster_api::meta;
use muster_api::paths::{container as container_path, dns_option, mount as mount_path, pod as path};
use muster_process::Isolation;
use muster_tree::{Text, Tree};

use super::mounts::RequestedMount;
use super::projected::ProjectedFile;
use super::volume::Volume;
use super::{ClusterDns, PodContext, RESOLV};

const FILE: &str = "resolv.conf";
const TARGET: &str = "/etc/resolv.conf";
/// Maximum of name servers that C libraries read.
const SERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;

/// The volume of the file, if the pod has its own.
pub(super) fn volume(pod: &Tree, context: &PodContext<'_>) -> Option<Volume> {
    let text = text(pod, context.lookup.resolver())?;
    let folder = context.layout.pod(&meta::uid(pod)).join("resolv");
    let file = ProjectedFile { path: FILE.to_owned(), bytes: text.into_bytes(), mode: 0o644, user: None };
    Some(Volume::Files { folder, files: vec![file], group: None })
}

/// The mount of the file, unless the container mounts something else there.
pub(super) fn mount(
    container: &Tree,
    volumes: &BTreeMap<Text, Volume>,
    isolation: Isolation,
) -> Option<RequestedMount> {
    let volume = volumes.get(RESOLV).filter(|_| isolation == Isolation::Namespaces)?;
    let taken = |it: &Tree| Path::new("/").join(it.str_at(mount_path::PATH)) == Path::new(TARGET);
    if container.items_at(container_path::MOUNTS).iter().any(taken) {
        return None;
    }
    Some(RequestedMount {
        volume: Text::from(RESOLV),
        container: container.text_at(container_path::NAME),
        root: volume.path().to_owned(),
        part: Some(FILE.to_owned()),
        target: PathBuf::from(TARGET),
        read_only: true,
        is_ours: false,
    })
}

/// The content of the file; `None` for the host's resolvers.
fn text(pod: &Tree, resolver: Option<ClusterDns>) -> Option<String> {
    let policy = pod.str_at(path::DNS_POLICY);
    let is_hosts = pod.bool_at(path::HOST_NETWORK) == Some(true);
    let (mut servers, mut searches, mut options) = match policy {
        "None" => (Vec::new(), Vec::new(), BTreeMap::new()),
        "Default" => return None,
        "" | "ClusterFirst" if is_hosts => return None,
        _ => of_cluster(pod, resolver?),
    };
    add(&mut servers, pod.items_at(path::DNS_SERVERS), SERVERS_MAX);
    add(&mut searches, pod.items_at(path::DNS_SEARCHES), SEARCHES_MAX);
    for it in pod.items_at(path::DNS_OPTIONS) {
        options.insert(it.text_at(dns_option::NAME), it.text_at(dns_option::VALUE));
    }
    let mut out: String = servers.iter().map(|it| format!("nameserver {it}\n")).collect();
    if !searches.is_empty() {
        out.push_str(&format!("search {}\n", searches.join(" ")));
    }
    if !options.is_empty() {
        let one = |(name, value): (Text, Text)| match value.as_str() {
            "" => name.to_string(),
            value => format!("{name}:{value}"),
        };
        let all: Vec<String> = options.into_iter().map(one).collect();
        out.push_str(&format!("options {}\n", all.join(" ")));
    }
    Some(out)
}

/// Servers, domains and options.
type Parts = (Vec<Text>, Vec<Text>, BTreeMap<Text, Text>);

/// Search order of ClusterFirst: the pod's namespace, the cluster domain, the host's domains.
fn of_cluster(pod: &Tree, resolver: ClusterDns) -> Parts {
    let namespace = meta::namespace(pod);
    let own = [
        format!("{namespace}.svc.{CLUSTER_DOMAIN}"),
        format!("svc.{CLUSTER_DOMAIN}"),
        CLUSTER_DOMAIN.to_owned(),
    ];
    let mut searches: Vec<Text> = own.into_iter().map(Text::from).collect();
    searches.extend(resolver.search);
    // As the kubelet sets it: names with fewer dots try the search domains first.
    (vec![resolver.address], searches, BTreeMap::from([("ndots".into(), "5".into())]))
}

fn add(all: &mut Vec<Text>, more: &[Tree], max: usize) {
    for it in more.iter().filter_map(Tree::as_text) {
        if !all.contains(it) {
            all.push(it.clone());
        }
    }
    all.truncate(max);
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn texts() {
        let ours = || Some(ClusterDns { address: "127.5.5.5".into(), search: vec!["corp".into()] });
        let usual = "nameserver 127.5.5.5\nsearch n.svc.cluster.local svc.cluster.local cluster.local corp\noptions ndots:5\n";
        let config = tree!({"nameservers": ["1.1.1.1", "127.5.5.5"], "searches": ["mine", "corp"],
            "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}]});
        for (says, spec, resolver, want) in [
            ("the usual", tree!({"dnsPolicy": "ClusterFirst"}), ours(), Some(usual)),
            ("nothing said", tree!({}), ours(), Some(usual)),
            ("there is none", tree!({"dnsPolicy": "ClusterFirst"}), None, None),
            ("the machine's", tree!({"dnsPolicy": "Default"}), ours(), None),
            (
                "the machine's network",
                tree!({"dnsPolicy": "ClusterFirst", "hostNetwork": true}),
                ours(),
                None,
            ),
            (
                "the machine's network, and ours",
                tree!({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true}),
                ours(),
                Some(usual),
            ),
            (
                "with more",
                tree!({"dnsConfig": config.clone()}),
                ours(),
                Some(
                    "nameserver 127.5.5.5\nnameserver 1.1.1.1\n\
                     search n.svc.cluster.local svc.cluster.local cluster.local corp mine\noptions edns0 ndots:2\n",
                ),
            ),
            (
                "only that",
                tree!({"dnsPolicy": "None", "dnsConfig": config}),
                None,
                Some("nameserver 1.1.1.1\nnameserver 127.5.5.5\nsearch mine corp\noptions edns0 ndots:2\n"),
            ),
        ] {
            let pod = tree!({"metadata": {"namespace": "n"}, "spec": spec});
            assert_eq!(text(&pod, resolver).as_deref(), want, "{says}");
        }
    }
}
