//! Real API servers that serve one test after the other: the next one finds a server as new.

use std::collections::BTreeSet;

use muster_tests::clients::skip;
use muster_tests::differential::ApiClient;
use muster_tests::embedded_server::binary;
use muster_tests::jobset_cluster::post;
use muster_tests::real::{self, GangSupport, RealCluster};
use muster_tests::server_pair::wait_for_nodes;
use muster_tree::{Tree, tree};

/// Every object of a server by its path and name, and the rules of its roles. Events are left out.
fn inventory(server: &ApiClient) -> BTreeSet<String> {
    let groups = server.get("/apis").unwrap().body;
    let versions = groups.items_at(&["groups"]).iter();
    let versions = versions.map(|it| format!("/apis/{}", it.str_at(&["preferredVersion", "groupVersion"])));
    let mut all = BTreeSet::new();
    for version in versions.chain(["/api/v1".to_owned()]) {
        let resources = server.get(&version).unwrap().body;
        for resource in resources.items_at(&["resources"]) {
            let plural = resource.str_at(&["name"]);
            if plural == "events" || !resource.items_at(&["verbs"]).contains(&Tree::from("list")) {
                continue;
            }
            let list = server.get(&format!("{version}/{plural}")).unwrap().body;
            for object in list.items_at(&["items"]) {
                let meta = |key: &str| object.str_at(&["metadata", key]);
                let rules = object.at(&["rules"]).map(Tree::to_json).unwrap_or_default();
                all.insert(format!("{version}/{plural} {}/{} {rules}", meta("namespace"), meta("name")));
            }
        }
    }
    all
}

/// Leaves what tests leave: an installation, nodes, a namespace, and objects that finalizers hold.
fn use_it(real: &mut RealCluster) {
    let binary = binary().unwrap();
    let installed = real.install(&binary).unwrap();
    real.start_controllers(&["gc", "namespace", "job", "node", "role"]).unwrap();
    real.add_simulated_nodes(&binary, 2).unwrap();
    wait_for_nodes(&real.server, 2).unwrap();
    let _operator = real.start_installed_operator(&binary, &installed, &[]).unwrap();
    let container = tree!([{"name": "c", "image": "i"}]);
    let held = tree!({"name": "held", "finalizers": ["example.org/held"]});
    let queue = tree!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "q"}, "spec": {}});
    for (path, object) in [
        ("/api/v1/namespaces", tree!({"metadata": {"name": "left"}})),
        ("/api/v1/namespaces/left/configmaps", tree!({"metadata": held.clone()})),
        ("/api/v1/namespaces/default/pods", tree!({"metadata": held, "spec": {"containers": container}})),
        ("/apis/kueue.x-k8s.io/v1beta2/clusterqueues", queue),
    ] {
        let made = post(&real.server, path, &object).unwrap();
        assert_eq!(made.code, 201, "{path}: {}", made.body.to_json());
    }
}

#[test]
fn a_server_that_is_used_again_is_as_new() {
    if let Some(reason) = real::missing() {
        return skip("a_server_that_is_used_again_is_as_new", &reason);
    }
    let start = || RealCluster::with_gang_support(GangSupport::Absent).unwrap();
    let mut real = start();
    let (address, before) = (real.server.base().to_owned(), inventory(&real.server));
    use_it(&mut real);
    assert!(inventory(&real.server).len() > before.len() + 50, "an installation is no small thing");
    drop(real);
    // Another test may have taken that server meanwhile: then this one is compared.
    let again = start();
    if again.server.base() != address {
        eprintln!("compared with another server");
    }
    let after = inventory(&again.server);
    let lost: Vec<&String> = before.difference(&after).collect();
    let left: Vec<&String> = after.difference(&before).collect();
    assert!(lost.is_empty() && left.is_empty(), "lost: {lost:#?}\nleft: {left:#?}");
}
