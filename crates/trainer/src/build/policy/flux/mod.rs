//! The Flux policy: an init container installs a broker into every pod; the first pod's broker runs the command.

mod curve;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_api::paths::{container, env as variable, pod};
use muster_api::train::consts::names;
use muster_api::train::generated::flux as words;
use muster_api::train::paths::{runtime as runtime_path, trainer};
use muster_tree::{Tree, tree};

use crate::build::RuntimeError;
use crate::build::jobset_builder::{JobSetBuilder, TrainerCommand, count_at};
use crate::build::lists::{appended, with_mounts};
use crate::build::resources::gpus;

/// Installs Flux and its configuration.
const INIT: &str = include_str!("init.sh");
/// Starts a broker, and the command in the first pod.
const ENTRYPOINT: &str = include_str!("entrypoint.sh");

const OWNER_READS: i64 = 0o400;
const ALL_RUN: i64 = 0o755;

pub(super) fn enforce(draft: &mut JobSetBuilder<'_>) -> Result<(), RuntimeError> {
    if draft.runtime.at(runtime_path::FLUX).is_none() {
        return Ok(());
    }
    if draft.nodes().is_none() {
        return Err(RuntimeError::NoNodes);
    }
    let scripts = draft.named(words::SCRIPTS_SUFFIX);
    let (volumes, mounts) = (volumes(draft, &scripts), mounts(&scripts));
    let installer = installer(&setting(draft, words::VIEW_IMAGE), &scripts);
    let said = draft.trainer().cloned().unwrap_or_default();
    if let Some(set) = draft.set(names::NODE) {
        set.add_volumes(&volumes);
        set.change_pods(|pods| appended(pods, pod::INIT_CONTAINERS, installer));
        set.change_container(names::NODE, |it| {
            let command = [interpreter(words::ENTRYPOINT), vec![original(&said, it).into()]].concat();
            // The entrypoint takes the whole command line as its argument: `args` would follow it a second time.
            let wrapped = it.without(container::ARGS).with(container::COMMAND, Tree::list(command));
            with_mounts(&wrapped, &mounts)
        });
    }
    draft.run = TrainerCommand::FromPolicyWithoutArgs;
    Ok(())
}

/// The original command and arguments, as one line for the broker.
fn original(said: &Tree, container: &Tree) -> String {
    let places = [(trainer::COMMAND, container::COMMAND), (trainer::ARGS, container::ARGS)];
    let words = places.iter().flat_map(|(said_at, at)| match said.at(said_at) {
        Some(said) if said.is_list() => said.items(),
        _ => container.items_at(at),
    });
    words.filter_map(Tree::as_str).collect::<Vec<_>>().join(" ").trim().to_owned()
}

fn interpreter(script: &str) -> Vec<Tree> {
    vec!["/bin/bash".into(), format!("{}/{script}", words::SCRIPTS_DIR).into()]
}

/// A setting from an environment variable of the TrainJob, else of the runtime, else the default.
fn setting(draft: &JobSetBuilder<'_>, name: &str) -> String {
    let of_runtime = draft.trainer_container().map(|it| it.items_at(container::ENV)).unwrap_or_default();
    let said = of_runtime.iter().chain(draft.env()).filter(|it| it.str_at(variable::NAME) == name);
    let said = said.rev().find_map(|it| it.at(variable::VALUE)?.as_str());
    let usual = || words::SETTINGS.iter().find(|it| it.0 == name).map_or("", |it| it.1);
    said.unwrap_or_else(usual).to_owned()
}

fn installer(image: &str, scripts: &str) -> Tree {
    let mounts = [mount(words::FLUX_VOLUME, words::FLUX_DIR), read_only(scripts, words::SCRIPTS_DIR)];
    tree!({"name": names::FLUX_INSTALLER, "image": image, "command": Tree::list(interpreter(words::INIT)),
        "volumeMounts": Tree::list(mounts)})
}

fn volumes(draft: &JobSetBuilder<'_>, scripts: &str) -> [Tree; 5] {
    [
        tree!({"name": words::SOFTWARE_VOLUME, "emptyDir": {}}),
        tree!({"name": words::FLUX_VOLUME, "emptyDir": {}}),
        tree!({"name": scripts, "configMap": {"name": scripts, "defaultMode": ALL_RUN}}),
        tree!({"name": words::MEMORY_VOLUME, "emptyDir": {"medium": "Memory"}}),
        tree!({"name": words::CURVE_VOLUME,
            "secret": {"secretName": draft.named(words::CURVE_SUFFIX), "defaultMode": OWNER_READS}}),
    ]
}

fn mounts(scripts: &str) -> [Tree; 5] {
    [
        mount(words::FLUX_VOLUME, words::FLUX_DIR),
        mount(words::SOFTWARE_VOLUME, words::SOFTWARE_DIR),
        read_only(scripts, words::SCRIPTS_DIR),
        read_only(words::CURVE_VOLUME, words::CURVE_DIR),
        read_only(words::MEMORY_VOLUME, words::MEMORY_DIR),
    ]
}

fn mount(volume: &str, path: &str) -> Tree {
    tree!({"name": volume, "mountPath": path})
}

fn read_only(volume: &str, path: &str) -> Tree {
    mount(volume, path).with(&["readOnly"], true)
}

/// Creates the ConfigMap of the scripts and the Secret of the certificate.
pub(super) fn build(draft: &mut JobSetBuilder<'_>) {
    if draft.runtime.at(runtime_path::FLUX).is_none() {
        return;
    }
    let scripts = [(words::INIT, filled(INIT, draft)), (words::ENTRYPOINT, filled(ENTRYPOINT, draft))];
    let scripts = draft
        .object("v1", "ConfigMap", &draft.named(words::SCRIPTS_SUFFIX))
        .with(&["data"], Tree::map(scripts));
    let certificate = curve::certificate(&draft.facts.name, &draft.facts.uid);
    let secret = draft
        .object("v1", "Secret", &draft.named(words::CURVE_SUFFIX))
        .with(&["data"], Tree::map([(words::CERTIFICATE, STANDARD.encode(certificate))]));
    draft.beside.extend([scripts, secret]);
}

/// Fills the `@PLACES@` of a script.
fn filled(script: &str, draft: &JobSetBuilder<'_>) -> String {
    let nodes = draft.nodes().unwrap_or(1).max(1);
    let tasks =
        draft.procs().or_else(|| count_at(draft.runtime, runtime_path::FLUX_PROCS)).unwrap_or(1).max(1);
    let gpus = draft.trainer_container().map_or(0, gpus);
    let last = |count: u32| if count > 1 { format!("0-{}", count - 1) } else { "0".to_owned() };
    let first = format!("{}-{}-0-", draft.facts.name, names::NODE);
    let places = [
        ("@HOSTS@", format!("{first}[{}]", last(nodes))),
        ("@LEADER@", format!("{first}0")),
        ("@DOMAIN@", format!("{}.{}.svc.cluster.local", draft.facts.name, draft.facts.namespace)),
        ("@DEVICE@", setting(draft, words::NETWORK_DEVICE)),
        ("@QUEUE_POLICY@", setting(draft, words::QUEUE_POLICY)),
        ("@CORES@", format!("0-{}", tasks - 1)),
        ("@GPUS@", if gpus > 0 { format!(" --gpu=0-{}", gpus - 1) } else { String::new() }),
        ("@NODES@", nodes.to_string()),
        ("@TASKS@", (u64::from(tasks) * u64::from(nodes)).to_string()),
        ("@GPUS_EACH@", if gpus > 0 { format!(" -g {gpus}") } else { String::new() }),
    ];
    places.iter().fold(script.to_owned(), |script, (place, text)| script.replace(place, text))
}
