//! The Helm chart: the same manifests as templates.
//!
//! Manifests are generated with placeholder options that occur nowhere else; each placeholder is then replaced by a
//! Helm expression. So there is one source for both, and the chart with its default values renders what
//! `muster install` applies.
//!
//! # Deliberately absent
//!
//! - The directory `crds`: Helm never upgrades its content. CRDs are templates with the resource policy `keep`, since
//!   deleting a CRD with the release would delete every JobSet.
//! - The namespace of the release: Helm creates it.

use muster_api::train::consts::CLUSTER_TRAINING_RUNTIME;
use muster_trainer::kinds::bundled_runtimes::{images, split_registry};
use muster_tree::Tree;

use crate::names::CONFIG_FILE;
use crate::{DEFAULT_CONFIG, MANAGED_BY_LABEL, Options, VERSION, manifests};

const NAMESPACE: &str = "muster-chart-namespace";
const IMAGE: &str = "muster-chart-image";
const CONFIG: &str = "muster-chart-config";
const REPLICAS: u32 = 987_001;
const PORT: u16 = 47_001;
const STATUS_PORT: u16 = 47_002;
const REGISTRY: &str = "muster-chart-registry";
const RESOURCES: &str = "muster-chart-resources";
const OPTIONAL: &str = "muster-chart-optional";
/// Optional pod fields from the values; absent by default.
const POD_VALUES: [&str; 4] = ["imagePullSecrets", "nodeSelector", "priorityClassName", "tolerations"];

/// A file of the chart: path and content.
pub type File = (String, String);

#[must_use]
pub fn files() -> Vec<File> {
    let mut all = vec![
        ("Chart.yaml".to_owned(), chart_yaml()),
        ("values.yaml".to_owned(), values_yaml()),
        ("templates/NOTES.txt".to_owned(), NOTES.to_owned()),
    ];
    let options = Options {
        namespace: NAMESPACE.to_owned(),
        image: IMAGE.to_owned(),
        replicas: REPLICAS,
        webhook_port: PORT,
        queues: true,
        training: true,
        validates_training: true,
        status_port: Some(STATUS_PORT),
        runtimes: true,
        runtime_registry: REGISTRY.to_owned(),
        data_cache: true,
        config: CONFIG.to_owned(),
    };
    let own =
        |it: &Tree| it.str_at(&["kind"]) == "Namespace" && it.str_at(&["metadata", "name"]) == NAMESPACE;
    let objects = manifests(&options).into_iter().filter(|it| !own(it));
    let without = ManifestVariants {
        queues: manifests(&Options { queues: false, ..options.clone() }),
        reports: manifests(&Options { status_port: None, ..options.clone() }),
        cache: manifests(&Options { data_cache: false, ..options.clone() }),
        training: manifests(&Options { training: false, ..options }),
    };
    all.extend(objects.map(|object| without.template(&object)));
    all
}

/// The manifests with one feature disabled each, to find out which templates depend on it.
struct ManifestVariants {
    queues: Vec<Tree>,
    reports: Vec<Tree>,
    cache: Vec<Tree>,
    training: Vec<Tree>,
}

/// The condition for the data cache.
const DATA_CACHE_ENABLED: &str = ".Values.runtimes.dataCache";
/// The condition for the progress endpoint.
const STATUS_SERVER_ENABLED: &str = "and .Values.trainjobs .Values.statusPort";

impl ManifestVariants {
    /// The template of an object, inside the conditions of its features.
    fn template(&self, object: &Tree) -> File {
        let (path, text) = template(object);
        // An object that exists with and without a feature, but differs, becomes an if/else.
        let name = |it: &&Tree| ["kind", "metadata"].iter().all(|key| it.get(key) == object.get(key));
        let quiet = self.reports.iter().find(name).unwrap_or(object);
        let text = if quiet == object {
            text
        } else {
            if_else_block(STATUS_SERVER_ENABLED, &text, &template(quiet).1)
        };
        let text = match self.training.iter().find(name) {
            Some(plain) if plain == quiet => text,
            Some(plain) => if_else_block(".Values.trainjobs", &text, &template(plain).1),
            None => if_block(".Values.trainjobs", &text),
        };
        let text = if self.cache.contains(object) { text } else { if_block(DATA_CACHE_ENABLED, &text) };
        (path, if self.queues.contains(object) { text } else { if_block(".Values.queues", &text) })
    }
}

/// Text inside an `if`.
fn if_block(this: &str, text: &str) -> String {
    format!("{{{{- if {this} }}}}\n{text}{{{{- end }}}}\n")
}

/// Text inside an `if`/`else`.
fn if_else_block(this: &str, one: &str, other: &str) -> String {
    format!("{{{{- if {this} }}}}\n{one}{{{{- else }}}}\n{other}{{{{- end }}}}\n")
}

fn template(object: &Tree) -> File {
    let kind = object.str_at(&["kind"]);
    let path = format!("templates/{}-{}.yaml", kind.to_lowercase(), object.str_at(&["metadata", "name"]));
    let text = match kind {
        "CustomResourceDefinition" => {
            if_block(".Values.definitions", &substitute(&with_keep_policy(object).to_yaml()))
        }
        // It is created only if absent, and kept: it may contain objects of others.
        "Namespace" => {
            let absent =
                format!("not (lookup \"v1\" \"Namespace\" \"\" {:?})", object.str_at(&["metadata", "name"]));
            if_block(&absent, &substitute(&with_keep_policy(object).to_yaml()))
        }
        CLUSTER_TRAINING_RUNTIME => {
            if_block(RUNTIME_CRD_SERVED, &substitute(&with_keep_policy(object).to_yaml()))
        }
        "Deployment" => substitute(&deployment(object).to_yaml()),
        _ => substitute(&object.to_yaml()),
    };
    (path, text)
}

/// Helm rejects objects of a kind that is not served yet, so runtimes are created by the first upgrade after the CRDs.
const RUNTIME_CRD_SERVED: &str =
    r#"and .Values.runtimes.install (.Capabilities.APIVersions.Has "trainer.kubeflow.org/v1alpha1")"#;

/// An object that Helm keeps when the release is uninstalled.
fn with_keep_policy(object: &Tree) -> Tree {
    object.with(&["metadata", "annotations", "helm.sh/resource-policy"], "keep")
}

fn deployment(object: &Tree) -> Tree {
    let pod = ["spec", "template", "spec"];
    let containers = object.items_at(&[&pod[..], &["containers"]].concat()).iter();
    let containers = Tree::list(containers.map(|it| it.with(&["resources"], RESOURCES)));
    let object = object.with(&[&pod[..], &["containers"]].concat(), containers);
    POD_VALUES.iter().fold(object, |object, value| {
        object.with(&[&pod[..], &[value]].concat(), format!("{OPTIONAL}-{value}"))
    })
}

/// Replaces the placeholders by Helm expressions.
fn substitute(text: &str) -> String {
    let simple = [
        (NAMESPACE, "{{ .Release.Namespace | quote }}".to_owned()),
        (MANAGED_BY_LABEL.1, "{{ .Release.Service }}".to_owned()),
        (
            IMAGE,
            "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}".to_owned(),
        ),
        (RESOURCES, "{{ toJson .Values.resources }}".to_owned()),
    ];
    let numbers = [
        (REPLICAS.to_string(), "{{ .Values.replicas }}"),
        (PORT.to_string(), "{{ .Values.webhookPort }}"),
        (STATUS_PORT.to_string(), "{{ .Values.statusPort }}"),
    ];
    let text = simple.iter().fold(text.to_owned(), |text, (mark, value)| text.replace(mark, value));
    let text = images().iter().fold(text, |text, image| substitute_registry(&text, image));
    let text = numbers.iter().fold(text, |text, (mark, value)| text.replace(mark, value));
    text.lines().map(|line| substitute_line(line) + "\n").collect()
}

/// Makes the registry of an image configurable; the default is the image's own.
fn substitute_registry(text: &str, image: &str) -> String {
    let (registry, rest) = split_registry(image);
    let own = registry.map(|it| format!("{{{{ else }}}}{it}/")).unwrap_or_default();
    let open = format!("{{{{ with .Values.runtimes.registry }}}}{{{{ . }}}}/{own}{{{{ end }}}}{rest}");
    text.replace(&format!("{REGISTRY}/{rest}"), &open)
}

/// Replaces a line with a multi-word value.
fn substitute_line(line: &str) -> String {
    let indent = &line[..line.len() - line.trim_start().len()];
    if line.trim_start().starts_with("checksum/config:") {
        return format!("{indent}checksum/config: {{{{ .Values.config | sha256sum | quote }}}}");
    }
    if line.contains(CONFIG) {
        return format!("{indent}{CONFIG_FILE}: {{{{ toJson .Values.config }}}}");
    }
    match line.split_once(&format!("{OPTIONAL}-")) {
        Some((_, value)) => {
            format!("{{{{- with .Values.{value} }}}}\n{indent}{value}: {{{{ toJson . }}}}\n{{{{- end }}}}")
        }
        None => line.to_owned(),
    }
}

fn chart_yaml() -> String {
    format!(
        "apiVersion: v2\nname: muster\ndescription: Runs and admits JobSets and TrainJobs, queues work for quota, and schedules the pods that ask for it\n\
         type: application\nversion: {VERSION}\nappVersion: \"{VERSION}\"\nkubeVersion: \">=1.29.0-0\"\n"
    )
}

fn values_yaml() -> String {
    let usual = Options::default();
    let repository = usual.image.split(':').next().unwrap_or_default();
    let config: String = DEFAULT_CONFIG.lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "# Made by `cargo xtask chart`.\n\
         # The image of the operator; without a tag, that of the chart's version.\n\
         image:\n  repository: {repository}\n  tag: \"\"\n\
         # Operators: one works, the others stand by, all answer webhooks.\n\
         replicas: {}\n\
         # The port of the Service of the webhooks.\n\
         webhookPort: {}\n\
         # Whether queues are run. Without them nothing of Kueue's is installed; `controllers` and `admission` of the\n\
         # configuration must then leave `queue` out.\n\
         queues: true\n\
         # Whether TrainJobs are run. Without them nothing of Trainer's is installed; `controllers` and `admission` of the\n\
         # configuration must then leave `trainer` out.\n\
         trainjobs: true\n\
         # The port of the Service of the webhooks at which it is heard how far training is: 10443, or what `statusServer.port` says, where the\n\
         # configuration turns on the feature gate `TrainJobStatus`. 0 where it does not.\n\
         statusPort: 0\n\
         # Whether the shipped ClusterTrainingRuntimes come with the release, from its first upgrade on: Helm makes nothing of\n\
         # a kind that the release itself defines. They stay when the release goes. `registry` takes the place of\n\
         # the registries of their images (ghcr.io, nvcr.io, docker.io): a mirror. `dataCache` adds torch-distributed-with-cache, which needs\n\
         # LeaderWorkerSets on the cluster, and the account of its initializer in the namespace default.\n\
         runtimes:\n  install: true\n  registry: \"\"\n  dataCache: false\n\
         # The operator's configuration, as YAML documents; those of JobSet, Kueue and Trainer may follow.\n\
         config: |\n{config}\
         # Whether the definitions of JobSets, gangs, queues and TrainJobs come with the release. They stay when the release goes.\n\
         definitions: true\n\
         resources:\n  requests: {{cpu: 100m, memory: 128Mi}}\n  limits: {{memory: 1Gi}}\n\
         imagePullSecrets: []\nnodeSelector: {{}}\npriorityClassName: \"\"\ntolerations: []\n",
        usual.replicas, usual.webhook_port
    )
}

const NOTES: &str = "\
Muster is being started in {{ .Release.Namespace }}:

  kubectl -n {{ .Release.Namespace }} rollout status deployment/muster-operator

JobSets, queues and TrainJobs are refused until it answers. Its pods pass Pod Security \"restricted\", which the namespace can enforce:

  kubectl label namespace {{ .Release.Namespace }} pod-security.kubernetes.io/enforce=restricted

The definitions of JobSets, gangs, queues and TrainJobs, and every one of them, stay when the release goes.
{{- if and .Values.trainjobs .Values.runtimes.install (not (.Capabilities.APIVersions.Has \"trainer.kubeflow.org/v1alpha1\")) }}

The shipped ClusterTrainingRuntimes come with the next `helm upgrade` of this release, now that their kind is known.
{{- end }}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_is_left_open() {
        let all: String = files().into_iter().map(|(_, text)| text).collect();
        assert!(!all.contains("muster-chart-"), "a mark is left");
        for number in [REPLICAS.to_string(), PORT.to_string(), STATUS_PORT.to_string()] {
            assert!(!all.contains(&number), "{number}");
        }
        assert!(!all.contains(MANAGED_BY_LABEL.1));
        for value in [
            "Release.Namespace",
            "image.repository",
            "replicas",
            "webhookPort",
            "statusPort",
            "resources",
            "config",
        ] {
            assert!(all.contains(value), "{value}");
        }
        assert!(POD_VALUES.iter().all(|value| all.contains(&format!("with .Values.{value}"))));
    }

    #[test]
    fn the_definitions_stay_when_the_release_goes() {
        let all = files();
        let definitions = all.iter().filter(|(path, _)| path.contains("customresourcedefinition"));
        let mut count = 0;
        for (path, text) in definitions {
            assert!(text.contains("helm.sh/resource-policy: keep"), "{path}");
            // The conversion webhook has two expressions: namespace and port.
            let converted = crate::conversion::CONVERTED_CRDS.iter().any(|name| path.contains(name));
            // CRDs of queues and TrainJobs are inside another condition.
            let part = ["kueue.x-k8s.io", "trainer.kubeflow.org"].iter().any(|it| path.contains(it));
            let want = 3 + if converted { 2 } else { 0 } + if part { 2 } else { 0 };
            assert_eq!(text.matches("{{").count(), want, "nothing else of {path} is taken for an expression");
            count += 1;
        }
        assert_eq!(count, crate::crds().len());
    }
}
