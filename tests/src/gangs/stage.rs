//! Where one scenario is played: its namespace, its nodes, and what is done there.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use muster_tree::{Tree, tree};

use super::forms::Form;
use super::objects::life;
use super::planes::Ground;
use super::scenario::{Group, Named, Pods, Policy, Scenario, Step};
use crate::control_plane::ControlPlane;
use crate::differential::{self, Answer};

/// How often one looks for what is waited for, and how long apart.
const LOOKS: u32 = 1200;
const PAUSE: Duration = Duration::from_millis(150);
/// The label of the nodes of one scenario.
pub(super) const HOME: &str = "gangs.test/home";
/// The template of a Workload that is made with its group.
const TEMPLATE: &str = "t";
/// The scheduler that is asked, on every plane.
const SCHEDULER: &str = "muster-scheduler";
const GATE: &str = "gangs.test/gate";

/// A scenario being played.
pub(super) struct Stage<'a> {
    ground: &'a dyn Ground,
    number: usize,
    scenario: &'a Scenario,
    pub(super) server: &'a dyn ControlPlane,
    pub(super) form: Form,
    /// The namespace.
    pub(super) space: String,
    /// What the names of its nodes begin with; also the value of their label.
    home: String,
    /// All templates of the scenario, by Workload and name: one form copies them.
    templates: BTreeMap<(String, String), Policy>,
    /// All groups of the scenario, with Workload and template.
    groups: BTreeMap<String, (String, String)>,
    remembered: RefCell<Vec<(Named, Tree)>>,
}

/// The name of a node of the scenario with this number.
pub(super) fn node_name(scenario: usize, node: usize) -> String {
    format!("gang-{scenario}-{node}")
}

/// The value of the label of its nodes.
pub(super) fn home(scenario: usize) -> String {
    format!("gang-{scenario}")
}

impl<'a> Stage<'a> {
    /// Makes its namespace.
    pub(super) fn new(
        ground: &'a dyn Ground,
        number: usize,
        scenario: &'a Scenario,
    ) -> Result<Stage<'a>, String> {
        let space = format!("gang-{number}-{}", std::process::id());
        let stage = Stage {
            ground,
            number,
            scenario,
            server: ground.plane(),
            form: ground.form(),
            space: space.clone(),
            home: home(number),
            templates: templates(&scenario.steps),
            groups: groups(&scenario.steps),
            remembered: RefCell::default(),
        };
        stage.make("/api/v1/namespaces", &tree!({"metadata": {"name": space}}))?;
        Ok(stage)
    }

    /// Does what a step says, or waits for it.
    pub(super) fn perform(&self, step: &Step) -> Result<(), String> {
        match step {
            Step::Workload { name, templates, owner } => self.workload(name, templates, owner.as_ref()),
            Step::Group(group) => self.group(group),
            Step::Gang { name, policy } => {
                self.workload(name, &[(TEMPLATE.to_owned(), policy.clone())].into(), None)?;
                self.group(&gang(name))
            }
            Step::Coscheduling { name, min, timeout_secs } => {
                let spec = tree!({"minMember": *min});
                let spec = timeout_secs
                    .iter()
                    .fold(spec, |spec, secs| spec.with(&["scheduleTimeoutSeconds"], *secs));
                self.foreign("scheduling.x-k8s.io/v1alpha1", name, &spec)
            }
            Step::Volcano { name, min } => {
                self.foreign("scheduling.volcano.sh/v1beta1", name, &tree!({"minMember": *min}))
            }
            Step::Job(name) => self.job(name),
            Step::Set(set) => self.set(set),
            Step::Claim(name) => self.claim(name),
            Step::Budget(pods) => self.budget(pods),
            Step::Pods(pods) => self.pods(pods),
            Step::Patch { of, with } => self.patch(&self.path(of), with),
            Step::Join => self.ground.join(self.number, self.scenario),
            Step::Min { workload, template, to } => self.min(workload, template, *to),
            Step::Ungate(names) => names.iter().try_for_each(|name| {
                self.patch(&self.path(&Named::Pod(name.clone())), &tree!({"spec": {"schedulingGates": null}}))
            }),
            Step::Delete(all) => all.iter().try_for_each(|it| self.delete(it)),
            Step::Cordon(node) => self.close(*node, &tree!({"unschedulable": true})),
            Step::Uncordon(node) => self.change_node(*node, &tree!({"unschedulable": null})),
            Step::Taint(node) => {
                self.close(*node, &tree!({"taints": [{"key": "gangs.test/taint", "effect": "NoSchedule"}]}))
            }
            Step::Untaint(node) => self.change_node(*node, &tree!({"taints": null})),
            Step::Remember(it) => {
                let now = self.read(it)?;
                self.remembered.borrow_mut().push((it.clone(), now));
                Ok(())
            }
            Step::There(all) => all.iter().try_for_each(|it| {
                let now = self.read(it)?;
                let stays = now.at(&["metadata", "deletionTimestamp"]).is_none();
                if stays { Ok(()) } else { Err(format!("it is to go: {}", now.to_json())) }
            }),
            Step::Unbound(names) => self.unbound(names),
            Step::Untouched(it) => self.still(it, &["uid", "resourceVersion"]),
            Step::Same(it) => self.still(it, &["uid"]),
            Step::Share { label, pods } => self.share(label, pods),
            Step::NeverTried(names) => self.never_tried(names),
            waits => self.wait(|| self.look(waits)),
        }
    }

    fn workload(
        &self,
        name: &str,
        templates: &BTreeMap<String, Policy>,
        owner: Option<&String>,
    ) -> Result<(), String> {
        let all = templates.iter().map(|(name, policy)| self.form.template(name, policy));
        let spec = tree!({"podGroupTemplates": Tree::list(all.collect::<Vec<_>>())});
        let workload = tree!({"apiVersion": self.form.version(), "kind": "Workload", "metadata": {"name": name}, "spec": spec});
        self.make(&self.all("workloads"), &self.owned(&workload, owner)?)
    }

    fn group(&self, group: &Group) -> Result<(), String> {
        let key = (group.workload.clone(), group.template.clone());
        let policy = self.templates.get(&key).cloned().unwrap_or_default();
        let made = self.owned(&self.form.group(group, &policy), group.owner.as_ref())?;
        self.make(&self.all("podgroups"), &made)
    }

    fn foreign(&self, version: &str, name: &str, spec: &Tree) -> Result<(), String> {
        let group = tree!({"apiVersion": version, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec.clone()});
        self.make(&format!("/apis/{version}/namespaces/{}/podgroups", self.space), &group)
    }

    /// It stays suspended: it is there to own something.
    fn job(&self, name: &str) -> Result<(), String> {
        let pod = tree!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
        let job = tree!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"suspend": true, "template": {"spec": pod}}});
        self.make(&format!("/apis/batch/v1/namespaces/{}/jobs", self.space), &job)
    }

    fn owned(&self, object: &Tree, owner: Option<&String>) -> Result<Tree, String> {
        let Some(owner) = owner else { return Ok(object.clone()) };
        let job = self.read(&Named::Job(owner.clone()))?;
        // Whoever runs Jobs lets pods go that a Job controls and does not select.
        let controls = object.str_at(&["kind"]) != "Pod";
        let reference = tree!({"apiVersion": "batch/v1", "kind": "Job", "name": owner.as_str(),
            "uid": job.text_at(&["metadata", "uid"]), "controller": controls});
        Ok(object.with(&["metadata", "ownerReferences"], tree!([reference])))
    }

    fn pods(&self, pods: &Pods) -> Result<(), String> {
        pods.names.iter().try_for_each(|name| {
            let pod = self.owned(&self.pod(name, pods), pods.owner.as_ref())?;
            self.make(&format!("/api/v1/namespaces/{}/pods", self.space), &pod)
        })
    }

    fn pod(&self, name: &str, pods: &Pods) -> Tree {
        let cpu = pods.cpu.to_string();
        let mut container =
            tree!({"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu.as_str()}}});
        if let Some(port) = pods.port {
            container = container.with(&["ports"], tree!([{"containerPort": port, "hostPort": port}]));
        }
        let spec = self.pod_spec(&container);
        let mut pod = tree!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "annotations": life(pods.runs_secs, pods.exit), "labels": {"app": name}},
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

    /// What every pod of the scenario asks for.
    pub(super) fn pod_spec(&self, container: &Tree) -> Tree {
        let selector = Tree::map([(HOME, self.home.as_str())]);
        tree!({"schedulerName": SCHEDULER, "restartPolicy": "Never", "nodeSelector": selector,
            "terminationGracePeriodSeconds": 1, "containers": [container]})
    }

    /// One form has the number in the groups, too.
    fn min(&self, workload: &str, template: &str, to: i64) -> Result<(), String> {
        let key = (workload.to_owned(), template.to_owned());
        let mut policy = self.templates.get(&key).cloned().ok_or("there is no such template")?;
        policy.min = Some(to);
        let of = |(name, policy): (&String, &Policy)| self.form.template(name, policy);
        let others = self.templates.iter().filter(|((of, _), _)| of == workload);
        let all = others.map(|((_, name), old)| of((name, if name == template { &policy } else { old })));
        let patch = tree!({"spec": {"podGroupTemplates": Tree::list(all.collect::<Vec<_>>())}});
        self.patch(&self.path(&Named::Workload(workload.to_owned())), &patch)?;
        if self.form != Form::Native {
            return Ok(());
        }
        let patch = tree!({"spec": {"schedulingPolicy": {"gang": {"minCount": to}}}});
        let copies = self.groups.iter().filter(|(_, of)| **of == key);
        { copies }.try_for_each(|(name, _)| self.patch(&self.path(&Named::Group(name.clone())), &patch))
    }

    fn delete(&self, it: &Named) -> Result<(), String> {
        let options = tree!({"propagationPolicy": "Background"});
        let answer = self.send("DELETE", &self.path(it), "", &options)?;
        if answer.code < 300 { Ok(()) } else { Err(format!("{it:?}: {}", answer.body.to_json())) }
    }

    fn change_node(&self, node: usize, spec: &Tree) -> Result<(), String> {
        self.patch(&self.path(&Named::Node(node)), &tree!({"spec": spec}))
    }

    /// Nodes and pods are heard of apart: nobody knows which the scheduler hears of first, unless it is asked.
    fn close(&self, node: usize, spec: &Tree) -> Result<(), String> {
        self.change_node(node, spec)?;
        self.wait(|| {
            let probe = Named::Pod("probe".to_owned());
            self.probe("probe", &format!("{}-{node}", self.home))?;
            let refused = self.wait(|| self.decided(&probe)).map(|()| self.unbound(&["probe".to_owned()]))?;
            self.delete(&probe)?;
            self.wait(|| self.look(&Step::Gone(vec![probe.clone()])))?;
            Ok(refused)
        })
    }

    /// Makes a pod that asks for nothing but this node.
    fn probe(&self, name: &str, node: &str) -> Result<(), String> {
        let container = tree!({"name": "c", "image": "i"});
        let spec = self.pod_spec(&container).with(&["nodeSelector", "kubernetes.io/hostname"], node);
        let spec = spec.with(&["terminationGracePeriodSeconds"], 0);
        let pod = tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
        self.make(&format!("/api/v1/namespaces/{}/pods", self.space), &pod)
    }

    fn still(&self, it: &Named, keys: &[&str]) -> Result<(), String> {
        let now = self.read(it)?;
        let remembered = self.remembered.borrow();
        let (_, then) =
            remembered.iter().rev().find(|(name, _)| name == it).ok_or("it was not remembered")?;
        let changed = keys.iter().find(|key| then.at(&["metadata", key]) != now.at(&["metadata", key]));
        changed.map_or(Ok(()), |key| Err(format!("{it:?} has another {key}: {}", now.to_json())))
    }

    /// All objects of a kind of gangs.
    pub(super) fn all(&self, plural: &str) -> String {
        format!("/apis/{}/namespaces/{}/{plural}", self.form.version(), self.space)
    }

    /// One object.
    pub(super) fn path(&self, it: &Named) -> String {
        let space = &self.space;
        match it {
            Named::Pod(name) => format!("/api/v1/namespaces/{space}/pods/{name}"),
            Named::Job(name) => format!("/apis/batch/v1/namespaces/{space}/jobs/{name}"),
            Named::Set(name) => format!("/apis/jobset.x-k8s.io/v1alpha2/namespaces/{space}/jobsets/{name}"),
            Named::Node(number) => format!("/api/v1/nodes/{}-{number}", self.home),
            Named::Group(name) => format!("{}/{name}", self.all("podgroups")),
            Named::Workload(name) => format!("{}/{name}", self.all("workloads")),
        }
    }

    /// It, which must be there.
    pub(super) fn read(&self, it: &Named) -> Result<Tree, String> {
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

    fn send(&self, method: &str, path: &str, sort: &str, body: &Tree) -> Result<Answer, String> {
        let step = differential::Step { kind: sort.to_owned(), ..differential::Step::default() };
        self.server.send(method, path, &step, body.to_json_bytes())
    }

    /// Looks until all is as it should be; `look` says what is not.
    pub(super) fn wait(&self, look: impl Fn() -> Result<Result<(), String>, String>) -> Result<(), String> {
        let mut last = String::new();
        for _ in 0..LOOKS {
            match look()? {
                Ok(()) => return Ok(()),
                Err(seen) => last = seen,
            }
            self.server.pause(PAUSE);
        }
        Err(format!("never seen; last: {last}"))
    }
}

fn gang(name: &str) -> Group {
    Group {
        name: name.to_owned(),
        workload: name.to_owned(),
        template: TEMPLATE.to_owned(),
        ..Group::default()
    }
}

fn templates(steps: &[Step]) -> BTreeMap<(String, String), Policy> {
    let mut all = BTreeMap::new();
    for step in steps {
        match step {
            Step::Workload { name, templates, .. } => {
                all.extend(templates.iter().map(|(it, policy)| ((name.clone(), it.clone()), policy.clone())));
            }
            Step::Gang { name, policy } => {
                all.insert((name.clone(), TEMPLATE.to_owned()), policy.clone());
            }
            _ => {}
        }
    }
    all
}

fn groups(steps: &[Step]) -> BTreeMap<String, (String, String)> {
    let of = |step: &Step| match step {
        Step::Group(it) => Some((it.name.clone(), (it.workload.clone(), it.template.clone()))),
        Step::Gang { name, .. } => Some((name.clone(), (name.clone(), TEMPLATE.to_owned()))),
        _ => None,
    };
    steps.iter().filter_map(of).collect()
}
