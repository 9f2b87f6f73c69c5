//! The provisioner `muster.dev/local-path`: volumes that are folders of this machine.
//!
//! A claim that is to have its volume made here gets a folder and a volume that carries the claim's UID in its name; a
//! volume that was released is removed, the folder first.
//!
//! # Invariants
//!
//! - Every step may be repeated: the volume's name follows from the claim, so that making it twice meets itself, and a
//!   folder is removed before the volume that tells of it. Whoever dies in between leaves nothing that is not found again.
//! - A folder is new until its volume has been seen. New ones that no claim can get any more are removed; all others
//!   only with a volume that says so: what was retained is never touched.
//! - Volumes for one node are made by whoever plays that node; those that all nodes share by anyone.
//!
//! # Deliberately absent
//!
//! Limits: how much a volume holds is said, not enforced. Block devices.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_api::event::{About, Event, Severity};
use muster_api::paths::{claim as claim_path, storage_class, volume as volume_path};
use muster_api::port::{Act, Call, Cascade, Guard, Kind, Object, Part};
use muster_api::time::Time;
use muster_api::words::{managers, storage};
use muster_api::{kinds, meta, node, volume};
use muster_control::{Caches, Controller, Key, Plan, Seen, Step, Wake};
use muster_tree::{Text, Tree};

use crate::folders::Folders;

/// Ways to use a volume that ask for it on several nodes at once.
const SHARED: [&str; 2] = ["ReadWriteMany", "ReadOnlyMany"];

/// How long until what the disk refused is tried again.
const AGAIN: Duration = Duration::from_secs(15);

/// The provisioner.
pub struct Provisioner {
    /// What tells our nodes from those of others.
    mark: Text,
    folders: Box<dyn Folders>,
    /// Folders whose volume has not been seen yet.
    made: BTreeSet<Text>,
}

impl Provisioner {
    /// Makes volumes for the nodes with this mark.
    #[must_use]
    pub fn new(mark: &str, folders: Box<dyn Folders>) -> Provisioner {
        Provisioner { mark: Text::from(mark), folders, made: BTreeSet::new() }
    }
}

impl Controller for Provisioner {
    fn name(&self) -> &'static str {
        "node"
    }

    fn kinds(&self) -> Vec<Kind> {
        [&kinds::CLAIMS, &kinds::VOLUMES, &kinds::STORAGE_CLASSES, &kinds::NODES].map(Clone::clone).into()
    }

    fn starts(&mut self, caches: &Caches, _now: Time) -> Vec<Key> {
        let ours = |name: &Text| name.starts_with(volume::MADE);
        self.made = self.folders.new_ones().into_iter().filter(ours).collect();
        self.sweep(caches);
        Vec::new()
    }

    fn wakes(&mut self, seen: &Seen<'_>, caches: &Caches) -> Vec<Wake> {
        let claims = |fits: &dyn Fn(&Tree) -> bool| {
            let all = caches.all(&kinds::CLAIMS).filter(|it| wants(&it.tree) && fits(&it.tree));
            all.map(|it| Key::of(&kinds::CLAIMS, &it.tree).into()).collect()
        };
        match &seen.key.kind {
            kind if *kind == kinds::STORAGE_CLASSES => {
                claims(&|claim| claim.text_at(claim_path::CLASS) == seen.key.name)
            }
            kind if *kind == kinds::NODES => {
                // Whoever plays it, if it is there at all, makes its volumes.
                let player = |it: Option<&Object>| it.map(|it| node::player(&it.tree).map(str::to_owned));
                if player(seen.before) == player(seen.after) {
                    return Vec::new();
                }
                claims(&|claim| selected(claim) == Some(seen.key.name.as_str()))
            }
            _ => vec![seen.key.clone().into()],
        }
    }

    fn plan(&mut self, key: &Key, caches: &Caches, now: Time) -> Plan {
        match caches.find(key) {
            None => {
                self.sweep(caches);
                Plan::nothing()
            }
            Some(it) if key.kind == kinds::VOLUMES => {
                self.keep(&key.name);
                self.remove(it, now)
            }
            Some(it) => self.provision(it, caches, now).unwrap_or_default(),
        }
    }
}

/// Whether a claim is to have its volume made by us.
fn wants(claim: &Tree) -> bool {
    let told =
        meta::annotation(claim, storage::PROVISIONER).or(meta::annotation(claim, storage::OLD_PROVISIONER));
    told == Some(storage::LOCAL_PATH)
        && claim.str_at(claim_path::VOLUME).is_empty()
        && meta::deleting(claim).is_none()
}

fn selected(claim: &Tree) -> Option<&str> {
    meta::annotation(claim, storage::SELECTED_NODE)
}

fn is_shared(claim: &Tree) -> bool {
    claim.items_at(claim_path::MODES).iter().any(|mode| mode.as_str().is_some_and(|it| SHARED.contains(&it)))
}

impl Provisioner {
    fn provision(&mut self, claim: &Object, caches: &Caches, now: Time) -> Option<Plan> {
        let tree = &claim.tree;
        let name = volume::made_name(tree);
        if !wants(tree) || caches.get(&kinds::VOLUMES, &Text::new(), &name).is_some() {
            return None;
        }
        let class = caches.get(&kinds::STORAGE_CLASSES, &Text::new(), &tree.text_at(claim_path::CLASS))?;
        let ours = class.tree.str_at(storage_class::PROVISIONER) == storage::LOCAL_PATH;
        let waits = class.tree.str_at(storage_class::BINDING) == "WaitForFirstConsumer";
        let selected = selected(tree).map(Text::from);
        if !ours || (waits && selected.is_none()) {
            return None;
        }
        let mut host = selected.clone();
        if let Some(name) = &selected {
            match caches.get(&kinds::NODES, &Text::new(), name) {
                // The scheduler chose a node that is gone: it shall choose again.
                None => return Some(Plan::of(vec![reschedule(claim)])),
                Some(live) if node::player(&live.tree) != Some(&self.mark) => return None,
                Some(live) => host = Some(node::host(&live.tree)),
            }
        }
        Some(self.make(claim, class, &name, host.as_ref(), now))
    }

    /// Makes the volume, for pods on this host where one was chosen.
    fn make(&mut self, claim: &Object, class: &Object, name: &Text, host: Option<&Text>, now: Time) -> Plan {
        let (namespace, of) = (meta::namespace(&claim.tree), meta::name(&claim.tree));
        let begin = format!("External provisioner is provisioning volume for claim \"{namespace}/{of}\"");
        let mut steps = vec![note(claim, Severity::Normal, "Provisioning", begin)];
        self.made.insert(name.clone());
        let made = match claim.tree.str_at(claim_path::MODE) {
            "Block" => Err("only file systems can be made, not block devices".to_owned()),
            _ => self.folders.make(name),
        };
        if let Err(why) = made {
            let class = meta::name(&class.tree);
            let words = format!("failed to provision volume with StorageClass {:?}: {why}", class.as_str());
            steps.push(note(claim, Severity::Warning, "ProvisioningFailed", words));
            steps.extend(host.map(|_| reschedule(claim)));
            return Plan::of(steps).again(now + AGAIN);
        }
        let node = host.filter(|_| !is_shared(&claim.tree));
        let made = volume::folder(claim, &class.tree, &self.folders.path(name), node);
        let on = Key::new(&kinds::VOLUMES, &Text::new(), name).target(Part::Main);
        let call =
            Call { by: managers::LOCAL_PATH.clone(), on, guard: Guard::default(), act: Act::Create(made) };
        steps.push(Step::One(call));
        let words = format!("Successfully provisioned volume {name}");
        steps.push(note(claim, Severity::Normal, "ProvisioningSucceeded", words));
        Plan::of(steps)
    }

    /// A volume was seen: its folder is no longer new.
    fn keep(&mut self, name: &Text) {
        // What cannot be marked now is, when the volume is seen again.
        if self.made.contains(name) && self.folders.keep(name).is_ok() {
            self.made.remove(name);
        }
    }

    /// Removes a volume that was released: the folder first, so that no folder is ever forgotten.
    fn remove(&mut self, it: &Object, now: Time) -> Plan {
        let tree = &it.tree;
        let ours = meta::annotation(tree, storage::PROVISIONED_BY) == Some(storage::LOCAL_PATH);
        let released = tree.str_at(volume_path::PHASE) == "Released";
        let due = tree.str_at(volume_path::POLICY) == "Delete" && meta::deleting(tree).is_none();
        let name = meta::name(tree);
        let here = tree.str_at(volume_path::HOST_PATH) == self.folders.path(&name);
        if !(ours && released && due && here) {
            return Plan::nothing();
        }
        if let Err(why) = self.folders.remove(&name) {
            let about = About::of(&kinds::VOLUMES, "PersistentVolume", tree);
            let failed = event(about, Severity::Warning, "VolumeFailedDelete", why);
            return Plan::of(vec![failed]).again(now + AGAIN);
        }
        self.made.remove(&name);
        let on = meta::target(&kinds::VOLUMES, tree, Part::Main);
        let by = managers::LOCAL_PATH.clone();
        Plan::of(vec![Step::One(Call::delete(by, on, meta::uid(tree), Cascade::Background))])
    }

    /// Removes new folders that no volume tells of and no claim can get any more.
    fn sweep(&mut self, caches: &Caches) {
        let lost = |name: &&Text| {
            let uid = Text::from(name.strip_prefix(volume::MADE).unwrap_or_default());
            caches.get(&kinds::VOLUMES, &Text::new(), name).is_none() && caches.by_uid(&uid).is_none()
        };
        for name in self.made.iter().filter(lost).cloned().collect::<Vec<_>>() {
            // What cannot be removed now is tried again with the next volume that goes.
            if self.folders.remove(&name).is_ok() {
                self.made.remove(&name);
            }
        }
    }
}

/// Asks the scheduler to choose another node.
fn reschedule(claim: &Object) -> Step {
    Step::One(Call {
        by: managers::LOCAL_PATH.clone(),
        on: meta::target(&kinds::CLAIMS, &claim.tree, Part::Main),
        guard: Guard { uid: Some(meta::uid(&claim.tree)), revision: Some(claim.revision) },
        act: Act::Merge(volume::annotation(storage::SELECTED_NODE, None)),
    })
}

fn note(claim: &Object, severity: Severity, reason: &str, message: String) -> Step {
    event(About::of(&kinds::CLAIMS, "PersistentVolumeClaim", &claim.tree), severity, reason, message)
}

fn event(about: About, severity: Severity, reason: &str, message: String) -> Step {
    let by = managers::LOCAL_PATH.clone();
    Step::Note(Event {
        action: Text::new(),
        by,
        about,
        severity,
        reason: reason.into(),
        message: message.into(),
    })
}

#[cfg(test)]
mod tests;
