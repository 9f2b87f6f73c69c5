//! Progress reporting: gives training pods the URL of the progress endpoint, a bound token and the CA bundle.

use std::slice;

use muster_api::paths::pod;
use muster_api::train::Ancestor;
use muster_api::train::consts::API_VERSION;
use muster_api::train::generated::progress as words;
use muster_api::train::kinds::TRAIN_JOBS;
use muster_tree::{Tree, tree};

use super::jobset_builder::JobSetBuilder;
use super::lists::{variable, with_env, with_mounts, with_volumes};

/// The progress endpoint of this control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reporting<'a> {
    /// Scheme, host and port, without a path.
    pub server: &'a str,
    /// Its CA bundle, PEM.
    pub ca: &'a str,
}

/// Adds environment variables and the projected volume to all containers of the trainer pods.
pub(super) fn build(draft: &mut JobSetBuilder<'_>, to: Reporting<'_>) {
    let (namespace, name) = (draft.facts.namespace.clone(), draft.facts.name.clone());
    let status = format!("{API_VERSION}/namespaces/{namespace}/{}/{name}/status", TRAIN_JOBS.plural);
    let authority = draft.named(words::CA_SUFFIX);
    let file = |name: &str| format!("{}/{name}", words::DIR);
    let told = [
        variable(words::URL, format!("{}/apis/{status}", to.server)),
        variable(words::CA_CERT, file(words::CA_FILE)),
        variable(words::TOKEN, file(words::TOKEN_FILE)),
    ];
    let mount = tree!({"name": words::VOLUME, "mountPath": words::DIR, "readOnly": true});
    // The audience is the path of this status: the token is valid for no other TrainJob, nor for the API server.
    let volume = tree!({"name": words::VOLUME, "projected": {"sources": [
        {"serviceAccountToken": {"audience": status, "expirationSeconds": words::TOKEN_SECS, "path": words::TOKEN_FILE}},
        {"configMap": {"name": authority.as_str(), "items": [{"key": words::CA_FILE, "path": words::CA_FILE}]}}]}});
    for set in draft.sets.iter_mut().filter(|set| set.step == Some(Ancestor::Trainer)) {
        set.change_pods(|pods| {
            let told = |_: usize, it: &Tree| with_mounts(&with_env(it, &told), slice::from_ref(&mount));
            let pods = match pods.at(pod::CONTAINERS) {
                Some(containers) => pods.with(pod::CONTAINERS, containers.map_items(told)),
                None => pods.clone(),
            };
            with_volumes(&pods, slice::from_ref(&volume))
        });
    }
    let trusted =
        draft.object("v1", "ConfigMap", &authority).with(&["data"], Tree::map([(words::CA_FILE, to.ca)]));
    draft.beside.push(trusted);
}
