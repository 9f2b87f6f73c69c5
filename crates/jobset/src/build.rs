//! Builds the child objects of a JobSet.

use std::collections::BTreeMap;

use muster_api::client::Kind;
use muster_api::consts::jobset as words;
use muster_api::jobset::{
    ClaimTemplate, ExclusivePlacement, JobSetFacts, ReplicatedJob, VolumeTemplate, names,
};
use muster_api::meta::OwnerReference;
use muster_api::paths::{job as job_path, pod, pod_claim, replicated_job};
use muster_api::{kinds, meta};
use muster_tree::{Text, Tree, tree};

use crate::FeatureGates;
use crate::child_jobs::ObjectRef;
use crate::gangs::GangLayout;

pub const ALL_CONTAINERS: &str = "*";

/// Builds child objects; holds what all Jobs of a JobSet share.
pub struct Builder<'a> {
    set: &'a JobSetFacts,
    gates: FeatureGates,
    /// The gangs that its pods join.
    pub gangs: Option<GangLayout<'a>>,
    places: BTreeMap<&'a str, JobOffsets>,
}

/// Index offsets of the Jobs of one replicatedJob.
struct JobOffsets {
    global: u64,
    in_group: u64,
    group_replicas: u64,
}

impl<'a> Builder<'a> {
    #[must_use]
    pub fn new(set: &'a JobSetFacts, gates: FeatureGates) -> Builder<'a> {
        let (mut global, mut groups) = (0, BTreeMap::<&str, u64>::new());
        let mut places = BTreeMap::new();
        for it in &set.jobs {
            let in_group = groups.entry(&it.group).or_default();
            places.insert(it.name.as_str(), JobOffsets { global, in_group: *in_group, group_replicas: 0 });
            *in_group += u64::from(it.replicas);
            global += u64::from(it.replicas);
        }
        for it in &set.jobs {
            let place = places.get_mut(it.name.as_str()).expect("it was put there");
            place.group_replicas = groups[it.group.as_str()];
        }
        Builder { set, gates, gangs: None, places }
    }

    /// The Job with this index.
    #[must_use]
    pub fn job(&self, of: &ReplicatedJob, index: u32) -> Tree {
        let set = self.set;
        let name = names::job(&set.name, &of.name, index);
        let words = Tree::map(self.labels(of, index, &name));
        let own = ExclusivePlacement::of(of.template.at(&["metadata", "annotations"]));
        // The annotations of the template override those of the JobSet, each on its own.
        let exclusive = ExclusivePlacement {
            topology: own.topology.or_else(|| set.exclusive.topology.clone()),
            node_selector: own.node_selector.or_else(|| set.exclusive.node_selector.clone()),
        };
        let notes = words.merge(&exclusive_annotations(&exclusive));
        let metadata = tree!({"name": &name, "namespace": &set.namespace, "ownerReferences": Tree::list([self.owner()])})
            .with(&["labels"], over(of.template.at(&["metadata", "labels"]), &words))
            .with(&["annotations"], over(of.template.at(&["metadata", "annotations"]), &notes));
        let spec = of.template.at(&["spec"]).cloned().unwrap_or_else(Tree::empty_map);
        let pod = spec.at(&["template"]).cloned().unwrap_or_else(Tree::empty_map);
        // A separate map: trees are shared by reference, and a map shared with the Job would count as defaulted from it.
        let own = Tree::map(self.labels(of, index, &name));
        let pod = pod
            .with(&["metadata", "labels"], over(pod.at(&["metadata", "labels"]), &own))
            .with(&["metadata", "annotations"], over(pod.at(&["metadata", "annotations"]), &notes))
            .with(&["spec"], self.pod_spec(of, &pod, &name, &exclusive));
        let pod = self.joined(of, index, pod);
        // Suspended until its claims exist: otherwise its pods could use a claim of the same name that another object owns.
        let waits = set.suspend || effective(of).next().is_some();
        let spec = spec.with(&["template"], pod).with(&["suspend"], waits);
        let spec = filled(spec, &["completionMode"], "Indexed");
        tree!({"apiVersion": "batch/v1", "kind": "Job"}).with(&["metadata"], metadata).with(&["spec"], spec)
    }

    /// Adds the gang to the pod template, so that the Job controller creates no gang of its own.
    fn joined(&self, of: &ReplicatedJob, index: u32, pod: Tree) -> Tree {
        let Some(layout) = &self.gangs else { return pod };
        layout
            .member(of, index)
            .map_or_else(|| pod.clone(), |member| member.mark_template(layout.gangs(), &pod))
    }

    /// The controller owner reference to the JobSet.
    #[must_use]
    pub fn owner(&self) -> Tree {
        OwnerReference::controller_reference(words::API_VERSION, words::KIND, &self.set.name, &self.set.uid)
    }

    /// The headless Service for the hostnames of pods.
    #[must_use]
    pub fn service(&self) -> Tree {
        let set = self.set;
        let selector = Tree::map([(words::NAME, &set.name)]);
        tree!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": &set.network.subdomain, "namespace": &set.namespace, "ownerReferences": Tree::list([self.owner()])},
            "spec": {"clusterIP": "None", "selector": selector, "publishNotReadyAddresses": set.network.publish_not_ready}})
    }

    /// The PersistentVolumeClaim of a template.
    #[must_use]
    pub fn volume_claim(&self, of: &VolumeTemplate) -> Tree {
        let set = self.set;
        let label = Tree::map([(words::NAME, &set.name)]);
        let metadata = tree!({"name": names::volume_claim(&of.name, &set.name), "namespace": &set.namespace})
            .with(&["labels"], over(of.labels.as_ref(), &label))
            .with_option(&["annotations"], of.annotations.clone())
            .with_option(&["ownerReferences"], (!of.retain).then(|| Tree::list([self.owner()])));
        tree!({"apiVersion": "v1", "kind": "PersistentVolumeClaim"})
            .with(&["metadata"], metadata)
            .with(&["spec"], of.spec.clone())
    }

    /// The ResourceClaim of a Job, in the served API version.
    #[must_use]
    pub fn device_claim(&self, kind: &Kind, job: &Tree, of: &ClaimTemplate) -> Tree {
        let ObjectRef { name, uid } = ObjectRef::of(job);
        let keys =
            [words::NAME, words::UID, words::GROUP, words::JOB_INDEX, words::JOB_KEY, words::RESTART_ATTEMPT];
        let own = keys.into_iter().filter_map(|key| Some((key, meta::label(job, key)?.to_owned())));
        let own = own.chain([(words::CLAIM_TEMPLATE, of.name.to_string())]);
        let labels = of.labels.iter().fold(Tree::empty_map(), |all, more| all.merge(more));
        let notes = of.annotations.iter().fold(Tree::empty_map(), |all, more| all.merge(more));
        let owner =
            OwnerReference::controller_reference(&meta::api_version(&kinds::JOBS), "Job", &name, &uid);
        let metadata = tree!({"name": names::device_claim(&name, &of.name), "namespace": &self.set.namespace,
            "ownerReferences": Tree::list([owner])})
        .with(&["labels"], labels.merge(&Tree::map(own.collect::<Vec<_>>())))
        .with_option(&["annotations"], (!notes.is_empty()).then_some(notes));
        tree!({"apiVersion": meta::api_version(kind), "kind": "ResourceClaim"})
            .with(&["metadata"], metadata)
            .with(&["spec", "devices"], devices(&of.devices, kind.version != "v1beta1"))
    }

    /// The labels and annotations that a Job and its pods have in common.
    fn labels(&self, of: &ReplicatedJob, index: u32, name: &Text) -> Vec<(&'static str, Text)> {
        let set = self.set;
        let place = &self.places[of.name.as_str()];
        let number = |n: u64| Text::from(n.to_string());
        let at = u64::from(index);
        let restarts = set.status.job(&of.name).and_then(|it| it.restarts.get(index as usize)).copied();
        let mut all = vec![
            (words::NAME, set.name.clone()),
            (words::UID, set.uid.clone()),
            (words::GROUP, of.name.clone()),
            (words::REPLICAS, number(of.replicas.into())),
            (words::GLOBAL_REPLICAS, number(set.replicas())),
            (words::JOB_INDEX, number(at)),
            (words::JOB_GLOBAL_INDEX, number(place.global + at)),
            (words::JOB_KEY, names::job_key(&set.namespace, name)),
            (words::GROUP_NAME, of.group.clone()),
            (words::GROUP_REPLICAS, number(place.group_replicas)),
            (words::JOB_GROUP_INDEX, number(place.in_group + at)),
            (words::RESTART_ATTEMPT, number(set.status.restarts.into())),
        ];
        if self.gates.restart_job {
            all.push((words::JOB_RESTART_ATTEMPT, number(restarts.unwrap_or(0).into())));
        }
        all.extend(set.coordinator.iter().map(|it| (words::COORDINATOR, it.clone())));
        all
    }

    fn pod_spec(&self, of: &ReplicatedJob, pod: &Tree, job: &Text, exclusive: &ExclusivePlacement) -> Tree {
        let set = self.set;
        let mut spec = pod.at(&["spec"]).cloned().unwrap_or_else(Tree::empty_map);
        spec = filled(spec, &["restartPolicy"], "OnFailure");
        if set.network.hostnames {
            spec = spec.with(&["subdomain"], &set.network.subdomain);
        }
        if exclusive.topology.is_some() && exclusive.node_selector.is_some() {
            spec = with_prelabelled_nodes(&spec, &set.namespace, job);
        }
        let mounted: Vec<&VolumeTemplate> = set.volumes.iter().filter(|it| mounts(&spec, &it.name)).collect();
        if !mounted.is_empty() {
            let volume = |it: &&VolumeTemplate| {
                let claim = names::volume_claim(&it.name, &set.name);
                tree!({"name": &it.name, "persistentVolumeClaim": {"claimName": claim}})
            };
            spec = appended(&spec, "volumes", mounted.iter().map(volume));
        }
        effective(of).fold(spec, |spec, it| with_claim(&spec, it, job))
    }
}

/// The index of a claim of this name in the pod template, which overrides the claim template.
#[must_use]
pub fn own_claim(of: &ReplicatedJob, name: &str) -> Option<usize> {
    let own = of.template.at(job_path::TEMPLATE)?.items_at(pod::CLAIMS);
    own.iter().position(|it| it.str_at(pod_claim::NAME) == name)
}

/// The claim templates of a replicatedJob that the pod template does not override.
pub fn effective(of: &ReplicatedJob) -> impl Iterator<Item = &ClaimTemplate> {
    of.claims.iter().filter(|it| own_claim(of, &it.name).is_none())
}

/// The user's map, overridden by ours.
fn over(theirs: Option<&Tree>, ours: &Tree) -> Tree {
    theirs.filter(|it| it.is_map()).map_or_else(|| ours.clone(), |theirs| theirs.merge(ours))
}

fn filled(tree: Tree, path: &[&str], word: &str) -> Tree {
    if tree.str_at(path).is_empty() { tree.with(path, word) } else { tree }
}

fn exclusive_annotations(of: &ExclusivePlacement) -> Tree {
    let Some(topology) = &of.topology else { return Tree::empty_map() };
    let selector = of.node_selector.iter().map(|it| (words::NODE_SELECTOR, it.clone()));
    Tree::map([(words::EXCLUSIVE_TOPOLOGY, topology.clone())].into_iter().chain(selector))
}

/// Node selector and toleration for nodes that the user labelled and tainted per Job (`nodeSelector` strategy).
fn with_prelabelled_nodes(spec: &Tree, namespace: &Text, job: &Text) -> Tree {
    let place = Text::from(format!("{namespace}_{job}"));
    let toleration = tree!({"key": words::NO_SCHEDULE, "operator": "Exists", "effect": "NoSchedule"});
    let spec = spec.with(
        &["nodeSelector"],
        over(spec.at(&["nodeSelector"]), &Tree::map([(words::NAMESPACED_JOB, place)])),
    );
    appended(&spec, "tolerations", [toleration])
}

fn appended(spec: &Tree, list: &str, more: impl IntoIterator<Item = Tree>) -> Tree {
    let all: Vec<Tree> = spec.items_at(&[list]).iter().cloned().chain(more).collect();
    spec.with(&[list], Tree::list(all))
}

const CONTAINERS: [&str; 2] = ["initContainers", "containers"];

/// Whether any container mounts a volume of this name.
#[must_use]
pub fn mounts(pod_spec: &Tree, volume: &str) -> bool {
    let containers = CONTAINERS.iter().flat_map(|list| pod_spec.items_at(&[*list]));
    containers.flat_map(|it| it.items_at(&["volumeMounts"])).any(|it| it.str_at(&["name"]) == volume)
}

fn with_claim(spec: &Tree, template: &ClaimTemplate, job: &Text) -> Tree {
    let entry =
        tree!({"name": &template.name, "resourceClaimName": names::device_claim(job, &template.name)});
    let spec = appended(spec, "resourceClaims", [entry]);
    let picked = |name: &str| template.containers.iter().any(|it| it == ALL_CONTAINERS || it == name);
    let reference = |container: &Tree| {
        let has = container
            .items_at(&["resources", "claims"])
            .iter()
            .any(|it| it.str_at(&["name"]) == template.name);
        if has || !picked(container.str_at(&["name"])) {
            return container.clone();
        }
        let resources = container.at(&["resources"]).cloned().unwrap_or_else(Tree::empty_map);
        container.with(&["resources"], appended(&resources, "claims", [tree!({"name": &template.name})]))
    };
    CONTAINERS.iter().fold(spec, |spec, list| match spec.at(&[*list]) {
        Some(containers) => spec.with(&[*list], containers.map_items(|_, it| reference(it))),
        None => spec.clone(),
    })
}

/// Fields of a request that `resource.k8s.io/v1beta1` has in-line and later versions have under `exactly`.
const FLAT: [&str; 7] =
    ["deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity"];

/// Converts device requests between the `v1beta1` shape and the `exactly` shape.
fn devices(asked: &Tree, today: bool) -> Tree {
    let request = |it: &Tree| {
        let exactly = it.at(&["exactly"]).cloned();
        match (today, exactly) {
            (true, None) if it.at(&["firstAvailable"]).is_none() => {
                let moved = FLAT.iter().filter_map(|key| Some((*key, it.get(key)?.clone())));
                let moved = Tree::map(moved.collect::<Vec<_>>());
                FLAT.iter().fold(it.clone(), |it, key| it.without_key(key)).with(&["exactly"], moved)
            }
            (false, Some(exactly)) => it.without_key("exactly").merge(&exactly),
            _ => it.clone(),
        }
    };
    match asked.at(&["requests"]) {
        Some(requests) => asked.with(&["requests"], requests.map_items(|_, it| request(it))),
        None => asked.clone(),
    }
}

/// The merge patch that resumes a Job with the current pod template.
#[must_use]
pub fn resume(live: &Tree, wanted: &Tree) -> Tree {
    resume_template(live, wanted).unwrap_or_else(Tree::empty_map).with(job_path::SUSPEND, false)
}

/// The merge patch of the pod template, if it differs. Labels and annotations are merged; node selector, tolerations and
/// scheduling gates are replaced, so that nothing of an earlier Kueue admission remains.
#[must_use]
pub fn resume_template(live: &Tree, wanted: &Tree) -> Option<Tree> {
    let [live, wanted] = [live, wanted].map(|job| job.at(job_path::TEMPLATE).cloned().unwrap_or_default());
    let mut patch = Tree::empty_map();
    for key in ["labels", "annotations"] {
        let path = ["metadata", key];
        let have = live.at(&path).cloned().unwrap_or_else(Tree::empty_map);
        let want = over(Some(&have), wanted.at(&path).unwrap_or(&Tree::empty_map()));
        patch = patch.with_option(&path, have.merge_patch_to(&want));
    }
    for key in ["nodeSelector", "tolerations", "schedulingGates"] {
        let path = ["spec", key];
        let [have, want] = [&live, &wanted].map(|it| it.at(&path).filter(|it| !it.is_empty()).cloned());
        patch = match (have, want) {
            (have, want) if have == want => patch,
            (Some(have), Some(want)) if have.is_map() => patch.with_option(&path, have.merge_patch_to(&want)),
            (_, want) => patch.with(&path, want.unwrap_or(Tree::Null)),
        };
    }
    (!patch.is_empty()).then(|| Tree::empty_map().with(job_path::TEMPLATE, patch))
}

/// The merge patch that sets parallelism and completions to those of the template, if they differ.
#[must_use]
pub fn resize(live: &Tree, of: &ReplicatedJob) -> Option<Tree> {
    if of.parallelism != of.completions {
        return None;
    }
    let wanted = Tree::from(of.parallelism.unwrap_or(1));
    let same = |path: &[&str]| live.at(path) == Some(&wanted);
    let differs = !same(job_path::PARALLELISM) || !same(job_path::COMPLETIONS);
    differs.then(|| {
        Tree::empty_map().with(job_path::PARALLELISM, wanted.clone()).with(job_path::COMPLETIONS, wanted)
    })
}

/// The pod spec of a replicatedJob.
#[must_use]
pub fn pod_spec(replicated: &Tree) -> &Tree {
    replicated.at(replicated_job::POD_SPEC).unwrap_or(&Tree::Null)
}
