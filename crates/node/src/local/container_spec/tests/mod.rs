//! Fixtures: objects and a node around one pod.

mod disk;
mod environment;
mod launching;
mod sources;

use std::collections::BTreeMap;

use muster_api::client::Uid;
use muster_api::meta;
use muster_process::{ContainerConfig, Isolation, PodDirs};
use muster_tree::{Text, Tree, tree};

use super::{
    ClusterDns, ContainerConfigError, PodContext, PodObjectLister, Volume, generate_container_config,
    set_up_volume, volumes,
};

/// Objects by kind, namespace and name, and answers of the kubelet.
#[derive(Default)]
struct World {
    objects: Vec<Tree>,
    tokens: BTreeMap<String, Text>,
    addresses: BTreeMap<String, Text>,
    resolver: Option<ClusterDns>,
}

impl World {
    fn of(objects: impl IntoIterator<Item = Tree>) -> World {
        World { objects: objects.into_iter().collect(), ..World::default() }
    }

    fn find(&self, kind: &str, namespace: &str, name: &str) -> Option<Tree> {
        let fits = |it: &&Tree| {
            meta::kind_name(it) == kind && meta::namespace(it) == namespace && meta::name(it) == name
        };
        self.objects.iter().find(fits).cloned()
    }
}

impl PodObjectLister for World {
    fn config_map(&self, namespace: &Text, name: &Text) -> Option<Tree> {
        self.find("ConfigMap", namespace, name)
    }

    fn secret(&self, namespace: &Text, name: &Text) -> Option<Tree> {
        self.find("Secret", namespace, name)
    }

    fn claim(&self, namespace: &Text, name: &Text) -> Option<Tree> {
        self.find("PersistentVolumeClaim", namespace, name)
    }

    fn volume(&self, name: &Text) -> Option<Tree> {
        self.find("PersistentVolume", "", name)
    }

    fn services(&self, namespace: &Text) -> Vec<Tree> {
        let fits = |it: &&Tree| meta::kind_name(it) == "Service" && meta::namespace(it) == *namespace;
        self.objects.iter().filter(fits).cloned().collect()
    }

    fn resource_claim(&self, namespace: &Text, name: &Text) -> Option<Tree> {
        self.find("ResourceClaim", namespace, name)
    }

    fn token(&self, _pod: &Tree, audience: &str, expires_secs: i64) -> Option<Text> {
        self.tokens.get(&format!("{audience}/{expires_secs}")).cloned()
    }

    fn address_of(&self, host: &str, namespace: &Text) -> Option<Text> {
        self.addresses.get(&format!("{host}/{namespace}")).cloned()
    }

    fn pod_at(&self, address: &Text) -> Option<Uid> {
        self.addresses.values().any(|it| it == address).then(|| Uid::from(format!("pod at {address}")))
    }

    fn port_of(&self, pod: &Uid, port: u16) -> Option<u16> {
        let free = if pod == "u-1" { 2 } else { 1 };
        // A mapped host port maps to itself.
        Some(if port >= 40_000 { port } else { 40_000 + port % 10 + free })
    }

    fn resolver(&self) -> Option<ClusterDns> {
        self.resolver.clone()
    }
}

/// A directory of the host with the objects of a test.
struct Place {
    folder: tempfile::TempDir,
    layout: PodDirs,
    world: World,
    isolation: Isolation,
    images: bool,
    server: Option<(Text, u16)>,
    user: (u32, u32),
    search_path: Text,
    patient: bool,
}

impl Place {
    fn of(world: World) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let layout = PodDirs::new(folder.path().join("pods"));
        Place {
            folder,
            layout,
            world,
            isolation: Isolation::Namespaces,
            images: false,
            server: None,
            user: (0, 0),
            search_path: "/usr/bin:/bin".into(),
            patient: true,
        }
    }

    fn house(&self) -> PodContext<'_> {
        PodContext {
            layout: &self.layout,
            lookup: &self.world,
            pod_address: "127.1.0.1".into(),
            node_address: "10.0.0.7".into(),
            allocatable: tree!({"cpu": "8", "memory": "16Gi"}),
            isolation: self.isolation,
            images: self.images,
            server: self.server.clone(),
            search_path: self.search_path.clone(),
            user: self.user,
            patient: self.patient,
        }
    }

    fn volumes(&self, pod: &Tree) -> Result<BTreeMap<Text, Volume>, ContainerConfigError> {
        volumes(pod, &self.house())
    }

    /// The config of the first container, with all volumes set up.
    fn launch(&self, pod: &Tree) -> Result<ContainerConfig, ContainerConfigError> {
        let volumes = self.volumes(pod)?;
        for (name, volume) in &volumes {
            set_up_volume(volume).map_err(|why| ContainerConfigError::with_volume(name, &why))?;
        }
        generate_container_config(pod, &pod.items_at(&["spec", "containers"])[0], 0, &volumes, &self.house())
    }
}

/// A pod with one container that runs `true` by default.
fn pod(container: &Tree, spec: &Tree) -> Tree {
    let container = tree!({"name": "c", "image": "i", "command": ["true"]}).merge(container);
    tree!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "uid": "u-1", "labels": {"app": "x"}},
        "spec": tree!({"containers": [container], "nodeName": "node", "serviceAccountName": "robot"}).merge(spec)})
}

/// The same with a volume `v` mounted at `/v`.
fn pod_with(volume: &Tree, spec: &Tree) -> Tree {
    let volume = tree!({"name": "v"}).merge(volume);
    let mounted = tree!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]});
    pod(&mounted, &tree!({"volumes": [volume]}).merge(spec))
}

fn config_map(name: &str, data: &Tree) -> Tree {
    tree!({"kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}, "data": data})
}

fn secret(name: &str, data: &Tree) -> Tree {
    tree!({"kind": "Secret", "metadata": {"name": name, "namespace": "n"}, "data": data})
}
