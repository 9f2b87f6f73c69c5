//! The variables of a container.

use std::collections::BTreeMap;
use std::path::Path;

use muster_api::meta;
use muster_api::paths::{
    container as path, env as var, env_from, field_ref, file_ref, key_ref, mount, resource_ref,
};
use muster_api::train::generated::progress;
use muster_tree::{Text, Tree};

use super::expand::expand;
use super::rendezvous::Rendezvous;
use super::volume::Volume;
use super::{
    ContainerConfigError, PodContext, device_env, downward_api, env_file, projected, service_env,
    volume_manager,
};

/// Variables with paths of mounted files.
const FILES: [&str; 2] = [progress::CA_CERT, progress::TOKEN];

/// Environment variables in the order of their first assignment.
#[derive(Debug, Default)]
pub(super) struct Env {
    all: Vec<(String, String)>,
    places: BTreeMap<String, usize>,
}

impl Env {
    /// The value of a variable.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.places.get(name).map(|place| self.all[*place].1.as_str())
    }

    fn set(&mut self, name: String, value: String) {
        match self.places.get(&name) {
            Some(place) => self.all[*place].1 = value,
            None => {
                self.places.insert(name.clone(), self.all.len());
                self.all.push((name, value));
            }
        }
    }
}

/// Generates the environment: `envFrom`, then `env` in order, each of which may reference earlier ones, then Service
/// variables, which override nothing.
pub(super) fn of(
    pod: &Tree,
    container: &Tree,
    volumes: &BTreeMap<Text, Volume>,
    context: &PodContext<'_>,
) -> Result<Env, ContainerConfigError> {
    let links = service_env::of(pod, context);
    let mut env = Env::default();
    // Device variables first: the pod may override them.
    for (name, value) in device_env::of(pod, container, context)? {
        env.set(name, value);
    }
    let namespace = meta::namespace(pod);
    let wrong = ContainerConfigError::with_container;
    for from in container.items_at(path::ENV_FROM) {
        for (name, value) in whole_object(from, &namespace, context).map_err(wrong)? {
            env.set(name, value);
        }
    }
    let reader = Reader { pod, container, volumes, context };
    let rewriter = Rendezvous::of(pod, container, context);
    for item in container.items_at(path::ENV) {
        let name = item.str_at(var::NAME);
        let Some(value) = reader.value(item, &env, &links).map_err(wrong)? else { continue };
        let value = match &rewriter {
            Some(rewriter) => rewriter.variable(name, reader.file_of(name, value), &env)?,
            None => value,
        };
        env.set(name.to_owned(), value);
    }
    for (name, value) in links {
        if env.get(&name).is_none() {
            env.set(name, value);
        }
    }
    if let Some((name, _)) = env.all.iter().find(|(_, value)| value.contains('\0')) {
        return Err(wrong(format!("the value of variable {name:?} contains a NUL character")));
    }
    Ok(env)
}

/// Adds the base variables that the container does not set.
pub(super) fn whole(own: Env, base: &[(String, String)]) -> Vec<(String, String)> {
    let missing = base.iter().filter(|(name, _)| own.get(name).is_none());
    missing.cloned().collect::<Vec<_>>().into_iter().chain(own.all).collect()
}

/// `envFrom`: every key is a variable.
fn whole_object(
    from: &Tree,
    namespace: &Text,
    context: &PodContext<'_>,
) -> Result<Vec<(String, String)>, String> {
    let prefix = from.str_at(env_from::PREFIX);
    let found = match (from.at(env_from::CONFIG_MAP), from.at(env_from::SECRET)) {
        (Some(reference), _) => projected::config_map(reference, key_ref::NAME, namespace, context)?,
        (None, Some(reference)) => projected::secret(reference, key_ref::NAME, namespace, context)?,
        (None, None) => None,
    };
    let Some(found) = found else { return Ok(Vec::new()) };
    let named = |key: &Text, bytes: Vec<u8>| Ok((format!("{prefix}{key}"), text(key, bytes)?));
    found.texts.into_iter().map(|(key, bytes)| named(&key, bytes)).collect()
}

fn text(key: &str, bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes)
        .map_err(|_| format!("the value of key {key:?} is not UTF-8 text and cannot be a variable"))
}

/// Reads the `valueFrom` source of a variable.
struct Reader<'a> {
    pod: &'a Tree,
    container: &'a Tree,
    volumes: &'a BTreeMap<Text, Volume>,
    context: &'a PodContext<'a>,
}

impl Reader<'_> {
    /// The value of a variable; `None` if its source is optional and missing.
    fn value(
        &self,
        item: &Tree,
        env: &Env,
        links: &BTreeMap<String, String>,
    ) -> Result<Option<String>, String> {
        let written = item.str_at(var::VALUE);
        // Validation makes `value` and `valueFrom` exclusive.
        if !written.is_empty() {
            let known = |name: &str| env.get(name).map(str::to_owned).or_else(|| links.get(name).cloned());
            return Ok(Some(expand(written, known)));
        }
        if let Some(reference) = item.at(var::FIELD) {
            return downward_api::variable(self.pod, reference.str_at(field_ref::PATH), self.context)
                .map(Some);
        }
        if let Some(reference) = item.at(var::RESOURCE) {
            return self.resource(reference).map(Some);
        }
        if let Some(reference) = item.at(var::CONFIG_MAP) {
            return self.key(reference, "ConfigMap");
        }
        if let Some(reference) = item.at(var::SECRET) {
            return self.key(reference, "Secret");
        }
        if let Some(reference) = item.at(var::FILE) {
            return self.file(reference);
        }
        Ok(Some(String::new()))
    }

    /// The value of a variable with a path of a mounted file. Without mount namespaces it is the path on the host.
    fn file_of(&self, name: &str, value: String) -> String {
        if !FILES.contains(&name) {
            return value;
        }
        let below = |it: &Tree| {
            let inside = Path::new(&value).strip_prefix(it.str_at(mount::PATH)).ok()?;
            Some(self.volumes.get(it.str_at(mount::NAME))?.path().join(inside))
        };
        let found = self.container.items_at(path::MOUNTS).iter().find_map(below);
        found.map_or(value, |found| found.display().to_string())
    }

    fn resource(&self, reference: &Tree) -> Result<String, String> {
        let allocatable = downward_api::bounded_by_pod(&self.context.allocatable, self.pod);
        if reference.str_at(resource_ref::CONTAINER).is_empty() {
            return downward_api::resource(reference, self.container, &allocatable);
        }
        downward_api::named_resource(reference, self.pod, &allocatable)
    }

    fn key(&self, reference: &Tree, kind: &str) -> Result<Option<String>, String> {
        let namespace = meta::namespace(self.pod);
        let found = match kind {
            "Secret" => projected::secret(reference, key_ref::NAME, &namespace, self.context)?,
            _ => projected::config_map(reference, key_ref::NAME, &namespace, self.context)?,
        };
        let Some(mut found) = found else { return Ok(None) };
        let key = reference.text_at(key_ref::KEY);
        match found.texts.remove(&key) {
            Some(bytes) => text(&key, bytes).map(Some),
            None if reference.bool_at(key_ref::OPTIONAL) == Some(true) => Ok(None),
            None => {
                let name = reference.str_at(key_ref::NAME);
                Err(format!("couldn't find key {key} in {kind} {namespace}/{name}"))
            }
        }
    }

    fn file(&self, reference: &Tree) -> Result<Option<String>, String> {
        let (volume, path) = (reference.str_at(file_ref::VOLUME), reference.str_at(file_ref::PATH));
        let Some(folder) = self.volumes.get(volume).map(Volume::path) else {
            return Err(format!("cannot find the volume {volume:?} referenced by FileKeyRef"));
        };
        let key = reference.str_at(file_ref::KEY);
        let found =
            volume_manager::read_inside(folder, path).and_then(|content| env_file::find(&content, key));
        match found.map_err(|why| format!("couldn't parse env file: {path}: {why}"))? {
            Some(value) if !value.is_empty() => Ok(Some(value)),
            _ if reference.bool_at(file_ref::OPTIONAL) == Some(true) => Ok(None),
            _ => Err(format!("environment variable key {key:?} not found in file {path:?}")),
        }
    }
}
