//! Runs one gang scenario in its namespace and on its nodes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use muster_tree::{Tree, tree};

use super::api_variant::GangApiVariant;
use super::environment::GangControlPlane;
use super::objects::sim_annotations;
use super::scenario::{GangScenario, GangStep, GroupPolicy, ObjectName, PodGroupSpec, PodsSpec};
use crate::control_plane::ControlPlane;
use crate::differential::{self, HttpAnswer};

/// Polls of an assertion, and the interval between them: three minutes in total.
const POLLS_MAX: u32 = 1200;
const POLL_INTERVAL: Duration = Duration::from_millis(150);
/// Label on the nodes of a scenario; its pods select them by it.
pub(super) const NODE_LABEL: &str = "gangs.test/home";
/// Template name of the step `gang`.
const TEMPLATE: &str = "t";
/// Scheduler name of all pods.
const SCHEDULER: &str = "muster-scheduler";
const GATE: &str = "gangs.test/gate";

pub(super) struct GangScenarioRun<'a> {
    environment: &'a dyn GangControlPlane,
    number: usize,
    scenario: &'a GangScenario,
    pub(super) server: &'a dyn ControlPlane,
    pub(super) form: GangApiVariant,
    pub(super) space: String,
    /// Prefix of its node names, and the value of their label.
    home: String,
    /// Templates by Workload and name: v1beta1 copies them into PodGroups.
    templates: BTreeMap<(String, String), GroupPolicy>,
    /// PodGroups by name, with Workload and template.
    groups: BTreeMap<String, (String, String)>,
    remembered: RefCell<Vec<(ObjectName, Tree)>>,
}

/// Returns the name of a node of a scenario.
pub(super) fn node_name(scenario: usize, node: usize) -> String {
    format!("gang-{scenario}-{node}")
}

/// Returns the prefix of the node names of a scenario.
pub(super) fn node_prefix(scenario: usize) -> String {
    format!("gang-{scenario}")
}

impl<'a> GangScenarioRun<'a> {
    pub(super) fn new(
        environment: &'a dyn GangControlPlane,
        number: usize,
        scenario: &'a GangScenario,
    ) -> Result<GangScenarioRun<'a>, String> {
        let space = format!("gang-{number}-{}", std::process::id());
        let stage = GangScenarioRun {
            environment,
            number,
            scenario,
            server: environment.plane(),
            form: environment.form(),
            space: space.clone(),
            home: node_prefix(number),
            templates: templates(&scenario.steps),
            groups: groups(&scenario.steps),
            remembered: RefCell::default(),
        };
        stage.make("/api/v1/namespaces", &tree!({"metadata": {"name": space}}))?;
        Ok(stage)
    }

    /// Performs an action, or waits until an assertion holds.
    pub(super) fn perform(&self, step: &GangStep) -> Result<(), String> {
        match step {
            GangStep::Workload { name, templates, owner } => self.workload(name, templates, owner.as_ref()),
            GangStep::Group(group) => self.group(group),
            GangStep::Gang { name, policy } => {
                self.workload(name, &[(TEMPLATE.to_owned(), policy.clone())].into(), None)?;
                self.group(&gang(name))
            }
            GangStep::Coscheduling { name, min, timeout_secs } => {
                let spec = tree!({"minMember": *min});
                let spec = timeout_secs
                    .iter()
                    .fold(spec, |spec, secs| spec.with(&["scheduleTimeoutSeconds"], *secs));
                self.foreign("scheduling.x-k8s.io/v1alpha1", name, &spec)
            }
            GangStep::Volcano { name, min } => {
                self.foreign("scheduling.volcano.sh/v1beta1", name, &tree!({"minMember": *min}))
            }
            GangStep::Job(name) => self.job(name),
            GangStep::Set(set) => self.set(set),
            GangStep::Claim(name) => self.claim(name),
            GangStep::Budget(pods) => self.budget(pods),
            GangStep::Pods(pods) => self.pods(pods),
            GangStep::Patch { of, with } => self.patch(&self.path(of), with),
            GangStep::Join => self.environment.add_nodes(self.number, self.scenario),
            GangStep::Min { workload, template, to } => self.min(workload, template, *to),
            GangStep::Ungate(names) => names.iter().try_for_each(|name| {
                self.patch(
                    &self.path(&ObjectName::Pod(name.clone())),
                    &tree!({"spec": {"schedulingGates": null}}),
                )
            }),
            GangStep::Delete(all) => all.iter().try_for_each(|it| self.delete(it)),
            GangStep::Cordon(node) => self.make_unschedulable(*node, &tree!({"unschedulable": true})),
            GangStep::Uncordon(node) => self.change_node(*node, &tree!({"unschedulable": null})),
            GangStep::Taint(node) => self.make_unschedulable(
                *node,
                &tree!({"taints": [{"key": "gangs.test/taint", "effect": "NoSchedule"}]}),
            ),
            GangStep::Untaint(node) => self.change_node(*node, &tree!({"taints": null})),
            GangStep::Remember(it) => {
                let now = self.read(it)?;
                self.remembered.borrow_mut().push((it.clone(), now));
                Ok(())
            }
            GangStep::There(all) => all.iter().try_for_each(|it| {
                let now = self.read(it)?;
                let stays = now.at(&["metadata", "deletionTimestamp"]).is_none();
                if stays { Ok(()) } else { Err(format!("it is terminating: {}", now.to_json())) }
            }),
            GangStep::Unbound(names) => self.unbound(names),
            GangStep::Untouched(it) => self.still(it, &["uid", "resourceVersion"]),
            GangStep::Same(it) => self.still(it, &["uid"]),
            GangStep::Share { label, pods } => self.share_label(label, pods),
            GangStep::NeverTried(names) => self.never_tried(names),
            waits => self.poll_until(|| self.poll(waits)),
        }
    }

    fn workload(
        &self,
        name: &str,
        templates: &BTreeMap<String, GroupPolicy>,
        owner: Option<&String>,
    ) -> Result<(), String> {
        let all = templates.iter().map(|(name, policy)| self.form.template(name, policy));
        let spec = tree!({"podGroupTemplates": Tree::list(all.collect::<Vec<_>>())});
        let workload = tree!({"apiVersion": self.form.version(), "kind": "Workload", "metadata": {"name": name}, "spec": spec});
        self.make(&self.all("workloads"), &self.owned(&workload, owner)?)
    }

    fn group(&self, group: &PodGroupSpec) -> Result<(), String> {
        let key = (group.workload.clone(), group.template.clone());
        let policy = self.templates.get(&key).cloned().unwrap_or_default();
        let made = self.owned(&self.form.group(group, &policy), group.owner.as_ref())?;
        self.make(&self.all("podgroups"), &made)
    }

    fn foreign(&self, version: &str, name: &str, spec: &Tree) -> Result<(), String> {
        let group = tree!({"apiVersion": version, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec.clone()});
        self.make(&format!("/apis/{version}/namespaces/{}/podgroups", self.space), &group)
    }

    /// Creates a suspended Job, which serves only as an owner.
    fn job(&self, name: &str) -> Result<(), String> {
        let pod = tree!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
        let job = tree!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"suspend": true, "template": {"spec": pod}}});
        self.make(&format!("/apis/batch/v1/namespaces/{}/jobs", self.space), &job)
    }

    fn owned(&self, object: &Tree, owner: Option<&String>) -> Result<Tree, String> {
        let Some(owner) = owner else { return Ok(object.clone()) };
        let job = self.read(&ObjectName::Job(owner.clone()))?;
        // The Job controller releases pods that a Job controls but does not select.
        let controls = object.str_at(&["kind"]) != "Pod";
        let reference = tree!({"apiVersion": "batch/v1", "kind": "Job", "name": owner.as_str(),
            "uid": job.text_at(&["metadata", "uid"]), "controller": controls});
        Ok(object.with(&["metadata", "ownerReferences"], tree!([reference])))
    }

    fn pods(&self, pods: &PodsSpec) -> Result<(), String> {
        pods.names.iter().try_for_each(|name| {
            let pod = self.owned(&self.pod(name, pods), pods.owner.as_ref())?;
            self.make(&format!("/api/v1/namespaces/{}/pods", self.space), &pod)
        })
    }

    fn pod(&self, name: &str, pods: &PodsSpec) -> Tree {
        let cpu = pods.cpu.to_string();
        let mut container =
            tree!({"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu.as_str()}}});
        if let Some(port) = pods.port {
            container = container.with(&["ports"], tree!([{"containerPort": port, "hostPort": port}]));
        }
        let spec = self.pod_spec(&container);
        let mut pod = tree!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "annotations": sim_annotations(pods.runs_secs, pods.exit), "labels": {"app": name}},
            "spec": if pods.spec.is_map() { spec.merge(&pods.spec) } else { spec }});
        if let Some(claim) = &pods.claim {
            let volume = tree!({"name": "v", "persistentVolumeClaim": {"claimName": claim.as_str()}});
            pod = pod.with(&["spec", "volumes"], tree!([volume]));
        }
        if let Some(class) = &pods.priority {
            pod = pod.with(&["spec", "priorityClassName"], class.as_str());
        }
        if pods.gated {
            pod = pod.with(&["spec", "schedulingGates"], tree!([{"name": GATE}]));
        }
        if let Some(node) = pods.node {
            pod = pod.with(&["spec", "nodeName"], format!("{}-{node}", self.home));
        }
        if let Some(group) = &pods.coscheduling {
            pod = pod.with(&["metadata", "labels", "scheduling.x-k8s.io/pod-group"], group.as_str());
        }
        if let Some(group) = &pods.volcano {
            pod = pod.with(&["metadata", "annotations", "scheduling.k8s.io/group-name"], group.as_str());
        }
        let Some(group) = &pods.group else { return pod };
        let of_group = self.groups.get(group).map(|(workload, _)| workload);
        let workload = pods.workload.as_ref().or(of_group).unwrap_or(group);
        self.form.member(&pod, workload, group)
    }

    /// Builds a pod spec with the scheduler and node selector of the scenario.
    pub(super) fn pod_spec(&self, container: &Tree) -> Tree {
        let selector = Tree::map([(NODE_LABEL, self.home.as_str())]);
        tree!({"schedulerName": SCHEDULER, "restartPolicy": "Never", "nodeSelector": selector,
            "terminationGracePeriodSeconds": 1, "containers": [container]})
    }

    /// Changes `minCount` in the template; v1beta1 has a copy in the PodGroups.
    fn min(&self, workload: &str, template: &str, to: i64) -> Result<(), String> {
        let key = (workload.to_owned(), template.to_owned());
        let mut policy = self.templates.get(&key).cloned().ok_or("there is no such template")?;
        policy.min = Some(to);
        let of = |(name, policy): (&String, &GroupPolicy)| self.form.template(name, policy);
        let others = self.templates.iter().filter(|((of, _), _)| of == workload);
        let all = others.map(|((_, name), old)| of((name, if name == template { &policy } else { old })));
        let patch = tree!({"spec": {"podGroupTemplates": Tree::list(all.collect::<Vec<_>>())}});
        self.patch(&self.path(&ObjectName::Workload(workload.to_owned())), &patch)?;
        if self.form != GangApiVariant::Native {
            return Ok(());
        }
        let patch = tree!({"spec": {"schedulingPolicy": {"gang": {"minCount": to}}}});
        let copies = self.groups.iter().filter(|(_, of)| **of == key);
        { copies }.try_for_each(|(name, _)| self.patch(&self.path(&ObjectName::Group(name.clone())), &patch))
    }

    fn delete(&self, it: &ObjectName) -> Result<(), String> {
        let options = tree!({"propagationPolicy": "Background"});
        let answer = self.send("DELETE", &self.path(it), "", &options)?;
        if answer.code < 300 { Ok(()) } else { Err(format!("{it:?}: {}", answer.body.to_json())) }
    }

    fn change_node(&self, node: usize, spec: &Tree) -> Result<(), String> {
        self.patch(&self.path(&ObjectName::Node(node)), &tree!({"spec": spec}))
    }

    /// Patches a node so that it accepts no probe pod, and waits until the scheduler rejects one. The scheduler watches nodes and pods
    /// separately, so a pod created after the patch may be scheduled before the patch is observed.
    fn make_unschedulable(&self, node: usize, spec: &Tree) -> Result<(), String> {
        self.change_node(node, spec)?;
        self.poll_until(|| {
            let probe = ObjectName::Pod("probe".to_owned());
            self.probe("probe", &format!("{}-{node}", self.home))?;
            let refused =
                self.poll_until(|| self.decided(&probe)).map(|()| self.unbound(&["probe".to_owned()]))?;
            self.delete(&probe)?;
            self.poll_until(|| self.poll(&GangStep::Gone(vec![probe.clone()])))?;
            Ok(refused)
        })
    }

    /// Creates a pod without requests that selects one node.
    fn probe(&self, name: &str, node: &str) -> Result<(), String> {
        let container = tree!({"name": "c", "image": "i"});
        let spec = self.pod_spec(&container).with(&["nodeSelector", "kubernetes.io/hostname"], node);
        let spec = spec.with(&["terminationGracePeriodSeconds"], 0);
        let pod = tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
        self.make(&format!("/api/v1/namespaces/{}/pods", self.space), &pod)
    }

    fn still(&self, it: &ObjectName, keys: &[&str]) -> Result<(), String> {
        let now = self.read(it)?;
        let remembered = self.remembered.borrow();
        let (_, then) =
            remembered.iter().rev().find(|(name, _)| name == it).ok_or("it was not remembered")?;
        let changed = keys.iter().find(|key| then.at(&["metadata", key]) != now.at(&["metadata", key]));
        changed.map_or(Ok(()), |key| Err(format!("{it:?} has another {key}: {}", now.to_json())))
    }

    /// Returns the path of a gang collection.
    pub(super) fn all(&self, plural: &str) -> String {
        format!("/apis/{}/namespaces/{}/{plural}", self.form.version(), self.space)
    }

    pub(super) fn path(&self, it: &ObjectName) -> String {
        let space = &self.space;
        match it {
            ObjectName::Pod(name) => format!("/api/v1/namespaces/{space}/pods/{name}"),
            ObjectName::Job(name) => format!("/apis/batch/v1/namespaces/{space}/jobs/{name}"),
            ObjectName::Set(name) => {
                format!("/apis/jobset.x-k8s.io/v1alpha2/namespaces/{space}/jobsets/{name}")
            }
            ObjectName::Node(number) => format!("/api/v1/nodes/{}-{number}", self.home),
            ObjectName::Group(name) => format!("{}/{name}", self.all("podgroups")),
            ObjectName::Workload(name) => format!("{}/{name}", self.all("workloads")),
        }
    }

    /// Reads an object, which must exist.
    pub(super) fn read(&self, it: &ObjectName) -> Result<Tree, String> {
        let answer = self.server.get(&self.path(it))?;
        if answer.code == 200 { Ok(answer.body) } else { Err(format!("{it:?}: {}", answer.body.to_json())) }
    }

    pub(super) fn make(&self, path: &str, object: &Tree) -> Result<(), String> {
        let answer = self.send("POST", path, "", object)?;
        if answer.code == 201 { Ok(()) } else { Err(format!("POST {path}: {}", answer.body.to_json())) }
    }

    pub(super) fn patch(&self, path: &str, patch: &Tree) -> Result<(), String> {
        let answer = self.send("PATCH", path, "merge", patch)?;
        if answer.code == 200 { Ok(()) } else { Err(format!("PATCH {path}: {}", answer.body.to_json())) }
    }

    fn send(&self, method: &str, path: &str, sort: &str, body: &Tree) -> Result<HttpAnswer, String> {
        let step =
            differential::RequestStep { kind: sort.to_owned(), ..differential::RequestStep::default() };
        self.server.send(method, path, &step, body.to_json_bytes())
    }

    /// Polls until `look` returns `Ok(Ok(()))`; its inner error is the observed state.
    pub(super) fn poll_until(
        &self,
        look: impl Fn() -> Result<Result<(), String>, String>,
    ) -> Result<(), String> {
        let mut last = String::new();
        for _ in 0..POLLS_MAX {
            match look()? {
                Ok(()) => return Ok(()),
                Err(seen) => last = seen,
            }
            self.server.pause(POLL_INTERVAL);
        }
        Err(format!("timed out; last: {last}"))
    }
}

fn gang(name: &str) -> PodGroupSpec {
    PodGroupSpec {
        name: name.to_owned(),
        workload: name.to_owned(),
        template: TEMPLATE.to_owned(),
        ..PodGroupSpec::default()
    }
}

fn templates(steps: &[GangStep]) -> BTreeMap<(String, String), GroupPolicy> {
    let mut all = BTreeMap::new();
    for step in steps {
        match step {
            GangStep::Workload { name, templates, .. } => {
                all.extend(templates.iter().map(|(it, policy)| ((name.clone(), it.clone()), policy.clone())));
            }
            GangStep::Gang { name, policy } => {
                all.insert((name.clone(), TEMPLATE.to_owned()), policy.clone());
            }
            _ => {}
        }
    }
    all
}

fn groups(steps: &[GangStep]) -> BTreeMap<String, (String, String)> {
    let of = |step: &GangStep| match step {
        GangStep::Group(it) => Some((it.name.clone(), (it.workload.clone(), it.template.clone()))),
        GangStep::Gang { name, .. } => Some((name.clone(), (name.clone(), TEMPLATE.to_owned()))),
        _ => None,
    };
    steps.iter().filter_map(of).collect()
}
