//! The variables of a container.

use std::collections::BTreeMap;
use std::path::Path;

use muster_api::meta;
use muster_api::paths::{
    container as path, env as var, env_from, field_ref, file_ref, key_ref, mount, resource_ref,
};
use muster_api::train::made::progress;
use muster_tree::{Text, Tree};

use super::expand::expand;
use super::rendezvous::Meeting;
use super::volume::Volume;
use super::{House, Problem, devices, disk, env_file, fields, files, links};

/// Variables that name files which the pod is given.
const FILES: [&str; 2] = [progress::CA_CERT, progress::TOKEN];

/// Variables in the order in which they were first set.
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

/// The variables that the pod asks for: whole objects first, then single ones in their order, which may name earlier
/// ones; last the Services, which give way to all others.
pub(super) fn of(
    pod: &Tree,
    container: &Tree,
    volumes: &BTreeMap<Text, Volume>,
    house: &House<'_>,
) -> Result<Env, Problem> {
    let links = links::of(pod, house);
    let mut env = Env::default();
    for (name, value) in devices::of(pod, container, house)? {
        env.set(name, value);
    }
    let namespace = meta::namespace(pod);
    let wrong = Problem::with_container;
    for from in container.items_at(path::ENV_FROM) {
        for (name, value) in whole_object(from, &namespace, house).map_err(wrong)? {
            env.set(name, value);
        }
    }
    let reader = Reader { pod, container, volumes, house };
    let meeting = Meeting::of(pod, container, house);
    for item in container.items_at(path::ENV) {
        let name = item.str_at(var::NAME);
        let Some(value) = reader.value(item, &env, &links).map_err(wrong)? else { continue };
        let value = match &meeting {
            Some(meeting) => meeting.variable(name, reader.file_of(name, value), &env)?,
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

/// All variables: those that every container has come first and give way to its own.
pub(super) fn whole(own: Env, base: &[(String, String)]) -> Vec<(String, String)> {
    let missing = base.iter().filter(|(name, _)| own.get(name).is_none());
    missing.cloned().collect::<Vec<_>>().into_iter().chain(own.all).collect()
}

/// Every key of an object is a variable.
fn whole_object(from: &Tree, namespace: &Text, house: &House<'_>) -> Result<Vec<(String, String)>, String> {
    let prefix = from.str_at(env_from::PREFIX);
    let found = match (from.at(env_from::CONFIG_MAP), from.at(env_from::SECRET)) {
        (Some(reference), _) => files::config_map(reference, key_ref::NAME, namespace, house)?,
        (None, Some(reference)) => files::secret(reference, key_ref::NAME, namespace, house)?,
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

/// What a variable is read from.
struct Reader<'a> {
    pod: &'a Tree,
    container: &'a Tree,
    volumes: &'a BTreeMap<Text, Volume>,
    house: &'a House<'a>,
}

impl Reader<'_> {
    /// The value of a variable; `None` when it may be missing and is.
    fn value(
        &self,
        item: &Tree,
        env: &Env,
        links: &BTreeMap<String, String>,
    ) -> Result<Option<String>, String> {
        let written = item.str_at(var::VALUE);
        if !written.is_empty() {
            let known = |name: &str| env.get(name).map(str::to_owned).or_else(|| links.get(name).cloned());
            return Ok(Some(expand(written, known)));
        }
        if let Some(reference) = item.at(var::FIELD) {
            return fields::variable(self.pod, reference.str_at(field_ref::PATH), self.house).map(Some);
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

    /// The value of a variable that names a file of a volume: where nothing stands at its place, the file's own path.
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
        let allocatable = fields::bounded_by_pod(&self.house.allocatable, self.pod);
        if reference.str_at(resource_ref::CONTAINER).is_empty() {
            return fields::resource(reference, self.container, &allocatable);
        }
        fields::named_resource(reference, self.pod, &allocatable)
    }

    fn key(&self, reference: &Tree, kind: &str) -> Result<Option<String>, String> {
        let namespace = meta::namespace(self.pod);
        let found = match kind {
            "Secret" => files::secret(reference, key_ref::NAME, &namespace, self.house)?,
            _ => files::config_map(reference, key_ref::NAME, &namespace, self.house)?,
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
        let found = disk::read_inside(folder, path).and_then(|words| env_file::find(&words, key));
        match found.map_err(|why| format!("couldn't parse env file: {path}: {why}"))? {
            Some(value) if !value.is_empty() => Ok(Some(value)),
            _ if reference.bool_at(file_ref::OPTIONAL) == Some(true) => Ok(None),
            _ => Err(format!("environment variable key {key:?} not found in file {path:?}")),
        }
    }
}
