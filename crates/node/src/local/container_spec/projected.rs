//! Files of configMap, secret, downwardAPI, serviceAccountToken and projected volumes.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use muster_api::meta;
use muster_api::paths::{
    config_map as config_map_path, container, downward_item, field_ref, file_item as item,
    file_volume as path, key_ref, pod as pod_path, pod_volume, projected, projection, secret as secret_path,
    token_projection as token_path,
};
use muster_tree::{Text, Tree};

use super::{PodContext, downward_api};

/// A file of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectedFile {
    /// Path relative to the volume, without `..`.
    pub path: String,
    /// What is in it.
    pub bytes: Vec<u8>,
    /// Mode before `fsGroup` is applied.
    pub mode: u32,
    /// Owner UID; the server's if absent.
    pub user: Option<u32>,
}

/// The data of a ConfigMap or Secret.
#[derive(Debug, Default)]
pub(super) struct ObjectData {
    /// Keys that may be environment variables.
    pub(super) texts: BTreeMap<Text, Vec<u8>>,
    /// `binaryData`: keys that can only be files.
    binary: BTreeMap<Text, Vec<u8>>,
}

/// Default mode of files.
const MODE: u32 = 0o644;
/// Mode of a token with a known owner or `fsGroup`, as in the kubelet.
const PRIVATE: u32 = 0o600;
/// Prefix of the error while a TokenRequest is pending.
pub(super) const NO_TOKEN_YET: &str = "failed to fetch token";
/// Default `expirationSeconds` of a token.
const TOKEN_SECS: i64 = 3600;
/// Longest path of a file.
const PATH_MAX: usize = 4096;
/// Longest name of a file.
const NAME_MAX: usize = 255;

/// Data of a referenced ConfigMap; `None` if it is optional and missing.
pub(super) fn config_map(
    reference: &Tree,
    name: &[&str],
    namespace: &Text,
    context: &PodContext<'_>,
) -> Result<Option<ObjectData>, String> {
    let name = reference.text_at(name);
    let found = context.lookup.config_map(namespace, &name);
    let Some(found) =
        require_unless_optional(found, reference, || format!("configmap {:?} not found", name.as_str()))?
    else {
        return Ok(None);
    };
    let plain = |(key, value): &(Text, Tree)| (key.clone(), value.as_str().unwrap_or_default().into());
    let texts = found.entries_at(config_map_path::DATA).iter().map(plain).collect();
    Ok(Some(ObjectData { texts, binary: decoded(found.entries_at(config_map_path::BINARY))? }))
}

/// Data of a referenced Secret; `None` if it is optional and missing.
pub(super) fn secret(
    reference: &Tree,
    name: &[&str],
    namespace: &Text,
    context: &PodContext<'_>,
) -> Result<Option<ObjectData>, String> {
    let name = reference.text_at(name);
    let found = context.lookup.secret(namespace, &name);
    let Some(found) =
        require_unless_optional(found, reference, || format!("secret {:?} not found", name.as_str()))?
    else {
        return Ok(None);
    };
    Ok(Some(ObjectData { texts: decoded(found.entries_at(secret_path::DATA))?, binary: BTreeMap::new() }))
}

fn require_unless_optional(
    found: Option<Tree>,
    reference: &Tree,
    missing: impl Fn() -> String,
) -> Result<Option<Tree>, String> {
    if found.is_none() && !is_optional(reference) {
        return Err(missing());
    }
    Ok(found)
}

fn is_optional(reference: &Tree) -> bool {
    reference.bool_at(key_ref::OPTIONAL) == Some(true)
}

fn decoded(entries: &[(Text, Tree)]) -> Result<BTreeMap<Text, Vec<u8>>, String> {
    let one = |(key, value): &(Text, Tree)| match STANDARD.decode(value.as_str().unwrap_or_default()) {
        Ok(bytes) => Ok((key.clone(), bytes)),
        Err(why) => Err(format!("the value of key {:?} is not base64: {why}", key.as_str())),
    };
    entries.iter().map(one).collect()
}

/// Projects the files of a pod's volumes.
pub(super) struct FileProjector<'a> {
    pub(super) pod: &'a Tree,
    pub(super) context: &'a PodContext<'a>,
}

impl FileProjector<'_> {
    /// The files of a volume; `None` for other volume types.
    pub(super) fn files(&self, volume: &Tree) -> Option<Result<Vec<ProjectedFile>, String>> {
        let default_mode = |source: &Tree| mode_at(source, path::MODE).unwrap_or(MODE);
        let found = if let Some(source) = volume.at(pod_volume::CONFIG_MAP) {
            self.config_map(source, default_mode(source))
        } else if let Some(source) = volume.at(pod_volume::SECRET) {
            self.secret(source, path::SECRET, default_mode(source))
        } else if let Some(source) = volume.at(pod_volume::DOWNWARD) {
            self.downward(source, default_mode(source))
        } else {
            let source = volume.at(pod_volume::PROJECTED)?;
            self.projected(source, mode_at(source, projected::MODE).unwrap_or(MODE))
        };
        Some(found.and_then(checked))
    }

    fn config_map(&self, source: &Tree, mode: u32) -> Result<Vec<ProjectedFile>, String> {
        let keys = config_map(source, key_ref::NAME, &meta::namespace(self.pod), self.context)?;
        keyed(keys, source, mode, |key| format!("configmap references non-existent config key: {key}"))
    }

    fn secret(&self, source: &Tree, name: &[&str], mode: u32) -> Result<Vec<ProjectedFile>, String> {
        let keys = secret(source, name, &meta::namespace(self.pod), self.context)?;
        keyed(keys, source, mode, |key| format!("references non-existent secret key: {key}"))
    }

    fn downward(&self, source: &Tree, mode: u32) -> Result<Vec<ProjectedFile>, String> {
        let one = |it: &Tree| {
            let text = match (it.at(downward_item::FIELD), it.at(downward_item::RESOURCE)) {
                (Some(field), _) => downward_api::of_metadata(self.pod, field.str_at(field_ref::PATH))?,
                (None, Some(of)) => downward_api::named_resource(of, self.pod, &self.context.allocatable)?,
                (None, None) => String::new(),
            };
            let mode = mode_at(it, downward_item::MODE).unwrap_or(mode);
            Ok(ProjectedFile {
                path: it.str_at(downward_item::PATH).to_owned(),
                bytes: text.into_bytes(),
                mode,
                user: None,
            })
        };
        source.items_at(path::ITEMS).iter().map(one).collect()
    }

    /// All sources of a projected volume; later sources win. Reports all errors at once, as the kubelet does.
    fn projected(&self, source: &Tree, mode: u32) -> Result<Vec<ProjectedFile>, String> {
        let mut files = BTreeMap::new();
        let mut wrong = Vec::new();
        for part in source.items_at(projected::SOURCES) {
            match self.part(part, mode) {
                Ok(found) => files.extend(found.into_iter().map(|file| (file.path.clone(), file))),
                Err(why) => wrong.push(why),
            }
        }
        match wrong.len() {
            0 => Ok(files.into_values().collect()),
            1 => Err(wrong.remove(0)),
            _ => Err(format!("[{}]", wrong.join(", "))),
        }
    }

    fn part(&self, part: &Tree, mode: u32) -> Result<Vec<ProjectedFile>, String> {
        if let Some(source) = part.at(projection::CONFIG_MAP) {
            return self.config_map(source, mode);
        }
        if let Some(source) = part.at(projection::SECRET) {
            return self.secret(source, key_ref::NAME, mode);
        }
        if let Some(source) = part.at(projection::DOWNWARD) {
            return self.downward(source, mode);
        }
        if let Some(source) = part.at(projection::TOKEN) {
            return Ok(vec![self.token(source, mode)?]);
        }
        let kind = part.entries().first().map_or("nothing", |(key, _)| key.as_str());
        Err(format!(
            "a projected source of type {kind} is not supported on this node: \
             supported are configMap, downwardAPI, secret and serviceAccountToken"
        ))
    }

    fn token(&self, source: &Tree, mode: u32) -> Result<ProjectedFile, String> {
        let audience = source.str_at(token_path::AUDIENCE);
        let seconds = source.int_at(token_path::SECONDS).unwrap_or(TOKEN_SECS);
        let Some(token) = self.context.lookup.token(self.pod, audience, seconds) else {
            let account = self.pod.str_at(pod_path::ACCOUNT);
            return Err(format!("{NO_TOKEN_YET}: there is none of service account {account:?} yet"));
        };
        let user = only_user(self.pod);
        let is_known = user.is_some() || self.pod.int_at(pod_path::FS_GROUP).is_some();
        let path = source.str_at(token_path::PATH).to_owned();
        Ok(ProjectedFile {
            path,
            bytes: token.as_bytes().to_vec(),
            mode: if is_known { PRIVATE } else { mode },
            user,
        })
    }
}

/// The `runAsUser` common to all containers, if any.
fn only_user(pod: &Tree) -> Option<u32> {
    let lists = [pod_path::INIT_CONTAINERS, pod_path::CONTAINERS, pod_path::EPHEMERAL_CONTAINERS];
    let all = lists.into_iter().flat_map(|list| pod.items_at(list));
    let run_as_user = |it: &Tree| it.int_at(container::RUN_AS_USER).or(pod.int_at(pod_path::RUN_AS_USER));
    let mut users: Vec<Option<i64>> = all.map(run_as_user).collect();
    // Adjacent duplicates suffice: any second user leaves more than one entry.
    users.dedup();
    match users[..] {
        [Some(user)] => u32::try_from(user).ok(),
        _ => None,
    }
}

fn mode_at(source: &Tree, path: &[&str]) -> Option<u32> {
    source.int_at(path).and_then(|mode| u32::try_from(mode).ok()).map(|mode| mode & 0o777)
}

/// All keys as files, or those in `items`.
fn keyed(
    keys: Option<ObjectData>,
    source: &Tree,
    mode: u32,
    missing: impl Fn(&str) -> String,
) -> Result<Vec<ProjectedFile>, String> {
    let mut all = keys.unwrap_or_default();
    // Validation keeps the keys of `data` and `binaryData` disjoint.
    all.binary.append(&mut all.texts);
    let items = source.items_at(path::ITEMS);
    if items.is_empty() {
        let file = |(key, bytes): (Text, _)| ProjectedFile { path: key.to_string(), bytes, mode, user: None };
        return Ok(all.binary.into_iter().map(file).collect());
    }
    let mut files = Vec::new();
    for it in items {
        let key = it.str_at(item::KEY);
        match all.binary.get(key) {
            Some(bytes) => files.push(ProjectedFile {
                path: it.str_at(item::PATH).to_owned(),
                bytes: bytes.clone(),
                mode: mode_at(it, item::MODE).unwrap_or(mode),
                user: None,
            }),
            None if is_optional(source) => {}
            None => return Err(missing(key)),
        }
    }
    Ok(files)
}

/// Normalizes the paths and rejects those that leave the volume.
fn checked(files: Vec<ProjectedFile>) -> Result<Vec<ProjectedFile>, String> {
    let one = |file: ProjectedFile| {
        check_path(&file.path)?;
        let parts = file.path.split('/').filter(|part| !part.is_empty() && *part != ".");
        Ok(ProjectedFile { path: parts.collect::<Vec<_>>().join("/"), ..file })
    };
    files.into_iter().map(one).collect()
}

fn check_path(path: &str) -> Result<(), String> {
    if path.trim_matches(['/', '.']).is_empty() && !path.contains("..") {
        return Err(format!("invalid path: must not be empty: {path:?}"));
    }
    if path.starts_with('/') {
        return Err(format!("invalid path: must be relative path: {path}"));
    }
    if path.len() > PATH_MAX {
        return Err(format!("invalid path: must be less than or equal to {PATH_MAX} characters"));
    }
    if path.split('/').any(|part| part == "..") {
        return Err(format!("invalid path: must not contain '..': {path}"));
    }
    if path.split('/').any(|part| part.len() > NAME_MAX) {
        return Err(format!("invalid path: filenames must be less than or equal to {NAME_MAX} characters"));
    }
    if path.starts_with("..") {
        return Err(format!("invalid path: must not start with '..': {path}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_within_the_volume() {
        for (path, want) in [
            ("a", Ok("a")),
            ("a/b.txt", Ok("a/b.txt")),
            ("./a//b/.", Ok("a/b")),
            ("a..b", Ok("a..b")),
            ("", Err("must not be empty")),
            (".", Err("must not be empty")),
            ("/", Err("must not be empty")),
            ("/etc/passwd", Err("must be relative path")),
            ("a/../b", Err("must not contain '..'")),
            ("..", Err("must not contain '..'")),
            ("..data", Err("must not start with '..'")),
        ] {
            let file = ProjectedFile { path: path.to_owned(), bytes: Vec::new(), mode: 0, user: None };
            match (checked(vec![file]), want) {
                (Ok(files), Ok(want)) => assert_eq!(files[0].path, want, "{path}"),
                (Err(why), Err(want)) => assert!(why.contains(want), "{path}: {why}"),
                (got, want) => panic!("{path}: {got:?}, not {want:?}"),
            }
        }
        let file = |path| ProjectedFile { path, bytes: Vec::new(), mode: 0, user: None };
        assert!(checked(vec![file("x".repeat(NAME_MAX + 1))]).is_err());
        assert!(checked(vec![file("x/".repeat(PATH_MAX))]).is_err());
    }
}
