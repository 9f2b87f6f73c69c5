//! Tests of volume sources and their errors.

use std::path::PathBuf;

use muster_tree::{Text, Tree, tree};

use super::super::{HostKind, ProjectedFile, Volume};
use super::{Place, World, config_map, pod_with, secret};

fn one(place: &Place, volume: &Tree, spec: &Tree) -> Result<Volume, String> {
    let problem = match place.volumes(&pod_with(volume, spec)) {
        Ok(mut all) => return Ok(all.remove("v").unwrap()),
        Err(problem) => problem,
    };
    assert_eq!((problem.event, problem.waiting), ("FailedMount", "ContainerCreating"));
    assert_eq!(problem.note(), problem.message);
    Err(problem.message)
}

/// Path, content and mode of each file.
fn files(place: &Place, volume: &Tree, spec: &Tree) -> Result<Vec<(String, String, u32)>, String> {
    match one(place, volume, spec)? {
        Volume::Files { files, .. } => {
            let text = |file: ProjectedFile| {
                (file.path, String::from_utf8_lossy(&file.bytes).into_owned(), file.mode)
            };
            Ok(files.into_iter().map(text).collect())
        }
        other => panic!("{other:?}"),
    }
}

fn rows(all: &[(&str, &str, u32)]) -> Vec<(String, String, u32)> {
    all.iter().map(|(path, text, mode)| ((*path).to_owned(), (*text).to_owned(), *mode)).collect()
}

fn failed(why: &str) -> String {
    format!("MountVolume.SetUp failed for volume \"v\" : {why}")
}

fn world() -> World {
    let mut world = World::of([
        config_map("config", &tree!({"a": "1", "b": "2"})).with(&["binaryData"], tree!({"raw": "AP8="})),
        secret("secret", &tree!({"key": "aHVzaA==", "bad": "***"})),
        secret("fine", &tree!({"key": "aHVzaA=="})),
    ]);
    world.tokens.insert("/3600".to_owned(), Text::from("token"));
    world.tokens.insert("vault/600".to_owned(), Text::from("vaulted"));
    world
}

#[test]
fn files_of_objects() {
    let place = Place::of(world());
    for (says, volume, want) in [
        (
            "all keys",
            tree!({"configMap": {"name": "config", "defaultMode": 0o440}}),
            Ok(rows(&[("a", "1", 0o440), ("b", "2", 0o440), ("raw", "\0\u{fffd}", 0o440)])),
        ),
        (
            "listed keys, where they shall be",
            tree!({"configMap": {"name": "config", "items": [{"key": "b", "path": "x/y", "mode": 0o400}, {"key": "raw", "path": "z"}]}}),
            Ok(rows(&[("x/y", "2", 0o400), ("z", "\0\u{fffd}", 0o644)])),
        ),
        (
            "no such key",
            tree!({"configMap": {"name": "config", "items": [{"key": "no", "path": "x"}]}}),
            Err("configmap references non-existent config key: no"),
        ),
        (
            "no such key, which may be missing",
            tree!({"configMap": {"name": "config", "optional": true, "items": [{"key": "no", "path": "x"}, {"key": "a", "path": "y"}]}}),
            Ok(rows(&[("y", "1", 0o644)])),
        ),
        ("no such object", tree!({"configMap": {"name": "no"}}), Err("configmap \"no\" not found")),
        (
            "no such object, which may be missing",
            tree!({"configMap": {"name": "no", "optional": true}}),
            Ok(rows(&[])),
        ),
        ("a secret", tree!({"secret": {"secretName": "fine"}}), Ok(rows(&[("key", "hush", 0o644)]))),
        ("no such secret", tree!({"secret": {"secretName": "no"}}), Err("secret \"no\" not found")),
        (
            "no such secret key",
            tree!({"secret": {"secretName": "fine", "items": [{"key": "no", "path": "x"}]}}),
            Err("references non-existent secret key: no"),
        ),
        (
            "out of the volume",
            tree!({"secret": {"secretName": "fine", "items": [{"key": "key", "path": "../x"}]}}),
            Err("invalid path: must not contain '..': ../x"),
        ),
        (
            "facts about the pod",
            tree!({"downwardAPI": {"items": [
                {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                {"path": "cpu", "mode": 0o400, "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}}]}}),
            Ok(rows(&[("labels", "app=\"x\"", 0o644), ("cpu", "8", 0o400)])),
        ),
    ] {
        assert_eq!(files(&place, &volume, &tree!({})), want.map_err(failed), "{says}");
    }
    let why = files(&place, &tree!({"secret": {"secretName": "secret"}}), &tree!({})).unwrap_err();
    assert!(why.contains("the value of key \"bad\" is not base64"), "{why}");
}

#[test]
fn projected_volumes() {
    let place = Place::of(world());
    let token = |rest: Tree| tree!({"serviceAccountToken": tree!({"path": "token"}).merge(&rest)});
    for (says, sources, want) in [
        (
            "later ones over earlier ones",
            tree!([{"configMap": {"name": "config", "items": [{"key": "a", "path": "x"}]}},
                {"secret": {"name": "fine", "items": [{"key": "key", "path": "x"}]}},
                {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}}]),
            Ok(rows(&[("name", "p", 0o640), ("x", "hush", 0o640)])),
        ),
        ("a token", Tree::list([token(tree!({}))]), Ok(rows(&[("token", "token", 0o640)]))),
        (
            "a token for somebody",
            Tree::list([token(tree!({"audience": "vault", "expirationSeconds": 600}))]),
            Ok(rows(&[("token", "vaulted", 0o640)])),
        ),
        (
            "a token that is not there yet",
            Tree::list([token(tree!({"audience": "nobody"}))]),
            Err("failed to fetch token: there is none of service account \"robot\" yet"),
        ),
        (
            "all that is wrong at once",
            tree!([{"configMap": {"name": "no"}}, {"secret": {"name": "no"}}]),
            Err("[configmap \"no\" not found, secret \"no\" not found]"),
        ),
        (
            "what we do not have",
            tree!([{"clusterTrustBundle": {"path": "x"}}]),
            Err("a projected source of type clusterTrustBundle is not supported on this node: \
                 supported are configMap, downwardAPI, secret and serviceAccountToken"),
        ),
    ] {
        let volume = tree!({"projected": {"defaultMode": 0o640, "sources": sources}});
        assert_eq!(files(&place, &volume, &tree!({})), want.map_err(failed), "{says}");
    }
}

#[test]
fn tokens_are_private_if_their_user_is_known() {
    let place = Place::of(world());
    let volume = tree!({"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}});
    for (says, security, mode, user) in [
        ("nobody known", tree!({}), 0o644, None),
        ("one user", tree!({"runAsUser": 7}), 0o600, Some(7)),
        ("a group", tree!({"fsGroup": 7}), 0o600, None),
    ] {
        let made = one(&place, &volume, &tree!({"securityContext": security})).unwrap();
        let Volume::Files { files, group, .. } = made else { panic!("{made:?}") };
        assert_eq!((files[0].mode, files[0].user), (mode, user), "{says}");
        assert_eq!(group, (says == "a group").then_some(7), "{says}");
    }
}

#[test]
fn empty_dirs_and_host_paths() {
    let place = Place::of(World::default());
    let folder = place.folder.path().join("pods/u-1/volumes/v");
    let scratch = |group, memory, limit_bytes| {
        Ok(Volume::Scratch { folder: folder.clone(), group, memory, limit_bytes })
    };
    let host = |path: &str, kind| Ok(Volume::Host { path: PathBuf::from(path), kind });
    let group = tree!({"securityContext": {"fsGroup": 5}});
    for (says, volume, spec, want) in [
        ("empty", tree!({"emptyDir": {}}), tree!({}), scratch(None, false, None)),
        ("of a group", tree!({"emptyDir": {}}), group, scratch(Some(5), false, None)),
        (
            "in memory, with a limit",
            tree!({"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}),
            tree!({}),
            scratch(None, true, Some(1 << 30)),
        ),
        ("nothing said", tree!({}), tree!({}), scratch(None, false, None)),
        (
            "anything there is",
            tree!({"hostPath": {"path": "/x", "type": ""}}),
            tree!({}),
            host("/x", HostKind::Any),
        ),
        (
            "a folder there must be",
            tree!({"hostPath": {"path": "/x", "type": "Directory"}}),
            tree!({}),
            host("/x", HostKind::Directory),
        ),
        (
            "no such type",
            tree!({"hostPath": {"path": "/x", "type": "Pipe"}}),
            tree!({}),
            Err(failed("Pipe is an invalid volume type")),
        ),
        (
            "steps back",
            tree!({"hostPath": {"path": "/x/../y"}}),
            tree!({}),
            Err(failed("invalid HostPath `/x/../y`: must not contain '..'")),
        ),
        (
            "what we do not have",
            tree!({"nfs": {"server": "s", "path": "/"}}),
            tree!({}),
            Err(failed(
                "a volume of type nfs is not supported on this node: supported are configMap, downwardAPI, emptyDir, \
                ephemeral, hostPath, persistentVolumeClaim (with hostPath and local volumes), projected and secret",
            )),
        ),
    ] {
        assert_eq!(one(&place, &volume, &spec), want, "{says}");
    }
}

/// A claim and its volume, modified.
fn bound(claim: &Tree, volume: &Tree) -> World {
    let claim =
        tree!({"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "n", "uid": "c-1"},
        "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}})
        .merge(claim);
    let volume = tree!({"kind": "PersistentVolume", "metadata": {"name": "pv"},
        "spec": {"claimRef": {"uid": "c-1"}, "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}})
    .merge(volume);
    World::of([claim, volume])
}

#[test]
fn claims() {
    let local = || tree!({"spec": {"local": {"path": "/disk"}}});
    let path =
        |path: &str, kind, read_only, group| Ok(Volume::Claim { path: path.into(), kind, read_only, group });
    let waits = |why: &str| {
        Err(format!(
            "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: \
             error processing PVC n/data: {why}"
        ))
    };
    let ours = tree!({"metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "muster.dev/local-path"}},
        "spec": {"hostPath": {"path": "/made", "type": "Directory"}}});
    for (says, world, want) in [
        ("local", bound(&tree!({}), &local()), path("/disk", HostKind::Directory, false, Some(5))),
        (
            "of the host",
            bound(&tree!({}), &tree!({"spec": {"hostPath": {"path": "/x"}}})),
            path("/x", HostKind::Any, false, None),
        ),
        ("made by us", bound(&tree!({}), &ours), path("/made", HostKind::Directory, false, Some(5))),
        ("not bound", bound(&tree!({"status": {"phase": "Pending"}}), &local()), waits("PVC is not bound")),
        (
            "without a volume",
            bound(&tree!({"spec": {"volumeName": ""}}), &local()),
            waits("PVC has empty pvc.Spec.VolumeName"),
        ),
        (
            "going away",
            bound(&tree!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), &local()),
            waits("PVC is being deleted"),
        ),
        (
            "going away, but kept for pods",
            bound(
                &tree!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["kubernetes.io/pvc-protection"]}}),
                &local(),
            ),
            path("/disk", HostKind::Directory, false, Some(5)),
        ),
        (
            "absent",
            World::default(),
            waits("failed to fetch PVC from API server: persistentvolumeclaims \"data\" not found"),
        ),
        (
            "its volume is absent",
            bound(&tree!({"spec": {"volumeName": "gone"}}), &local()),
            waits("failed to fetch PV gone from API server: persistentvolumes \"gone\" not found"),
        ),
        (
            "its volume is another's",
            bound(&tree!({"metadata": {"uid": "c-2"}}), &local()),
            waits("found PV object pv but its pv.Spec.ClaimRef.UID c-1 does not point to claim.UID c-2"),
        ),
        (
            "a volume that we cannot reach",
            bound(&tree!({}), &tree!({"spec": {"csi": {"driver": "d"}}})),
            Err("MountVolume.SetUp failed for volume \"pv\" : a volume of type csi is not supported on this node: \
                 supported are configMap, downwardAPI, emptyDir, ephemeral, hostPath, persistentVolumeClaim \
                 (with hostPath and local volumes), projected and secret".to_owned()),
        ),
    ] {
        let place = Place::of(world);
        let volume = tree!({"persistentVolumeClaim": {"claimName": "data"}});
        assert_eq!(one(&place, &volume, &tree!({"securityContext": {"fsGroup": 5}})), want, "{says}");
    }
    let place = Place::of(bound(&tree!({}), &local()));
    let volume = tree!({"persistentVolumeClaim": {"claimName": "data", "readOnly": true}});
    assert_eq!(one(&place, &volume, &tree!({})), path("/disk", HostKind::Directory, true, None));
    let place = Place::of(bound(&tree!({}), &local().merge(&tree!({"spec": {"volumeMode": "Block"}}))));
    assert!(one(&place, &volume, &tree!({})).unwrap_err().contains("volume v has volumeMode Block"));
}

#[test]
fn ephemeral_volume_claims() {
    let volume = tree!({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}});
    for (says, owner, want) in [
        ("its own", "u-1", None),
        ("a namesake's", "u-0", Some("PVC n/p-v was not created for pod n/p (pod is not owner)")),
    ] {
        let owners =
            tree!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": true}]);
        let claim = tree!({"metadata": {"name": "p-v", "ownerReferences": owners}});
        let place = Place::of(bound(&claim, &tree!({"spec": {"local": {"path": "/disk"}}})));
        match (one(&place, &volume, &tree!({})), want) {
            (Ok(_), None) => {}
            (Err(why), Some(want)) => assert!(why.ends_with(want), "{says}: {why}"),
            (got, _) => panic!("{says}: {got:?}"),
        }
    }
}
