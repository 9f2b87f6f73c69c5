//! Sets up volumes on disk, after the kubelet's volume manager and its atomic writer.
//!
//! # Guarantees
//!
//! - Every operation is idempotent and may be interrupted: partial results are never used.
//! - Projected files are replaced atomically: each name is a symlink through `..data`, which points at one generation
//!   directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use muster_process::{Isolation, Mount};

use super::mounts::RequestedMount;
use super::projected::ProjectedFile;
use super::volume::{HostKind, Volume};

/// The symlink to the current generation.
const DATA: &str = "..data";
/// The new symlink before its rename over [`DATA`].
const NEXT: &str = "..data.next";
/// Prefix of generation directories.
const GENERATION: &str = "..v";
/// Maximum size of a `fileKeyRef` file.
const ENV_FILE_BYTES_MAX: u64 = 1 << 20;
/// Mode of an emptyDir: any user of the pod may write.
const SCRATCH_MODE: u32 = 0o777;

/// Sets up a volume. Idempotent; readers of projected files never see a partial update.
///
/// # Errors
/// The volume is invalid, or an I/O error.
pub fn set_up_volume(volume: &Volume) -> Result<(), String> {
    match volume {
        Volume::Scratch { folder, group, .. } => {
            set_up_empty_dir(folder, *group).map_err(|why| with_path(folder, &why))
        }
        Volume::Files { folder, files, group } => {
            set_up_projected(folder, files, *group).map_err(|why| with_path(folder, &why))
        }
        Volume::Host { path, kind } => check_host_path(path, *kind),
        Volume::Claim { path, kind, group, read_only } => {
            check_host_path(path, *kind)?;
            match group {
                Some(group) if !read_only => {
                    apply_group(path, *group, 0o660).map_err(|why| with_path(path, &why))
                }
                _ => Ok(()),
            }
        }
    }
}

fn with_path(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Creates an emptyDir if it is missing: it appears by rename with its mode and group, or not at all.
fn set_up_empty_dir(folder: &Path, group: Option<u32>) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    // Volume names cannot start with dots, so this name is free.
    let new = folder.with_file_name(format!("..{name}"));
    ignore_not_found(fs::remove_dir_all(&new))?;
    fs::create_dir_all(&new)?;
    set_mode(&new, SCRATCH_MODE)?;
    if let Some(group) = group {
        apply_group(&new, group, 0o660)?;
    }
    fs::rename(new, folder)
}

fn ignore_not_found(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Applies `fsGroup`: changes the group and adds these permissions.
fn apply_group(path: &Path, group: u32, rights: u32) -> io::Result<()> {
    ignore_permission_denied(chown(path, None, Some(group)))?;
    let found = fs::metadata(path)?;
    // setgid: files created in the directory inherit the group.
    let more = if found.is_dir() { rights | 0o2110 } else { rights };
    let mode = found.mode() & 0o7777;
    if mode | more == mode {
        return Ok(());
    }
    ignore_permission_denied(set_mode(path, mode | more))
}

/// Without root, chown fails and is not needed: all containers run as the server's user.
fn ignore_permission_denied(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other,
    }
}

fn set_up_projected(folder: &Path, files: &[ProjectedFile], group: Option<u32>) -> io::Result<()> {
    if !folder.is_dir() {
        fs::create_dir_all(folder)?;
        set_mode(folder, 0o755)?;
    }
    if let Some(group) = group {
        apply_group(folder, group, 0o440)?;
    }
    let now = fs::read_link(folder.join(DATA)).ok().and_then(|it| it.to_str().map(str::to_owned));
    // Unchanged content keeps its generation: readers see no spurious update.
    if !now.as_ref().is_some_and(|now| is_same(&folder.join(now), files, group)) {
        let number = now.as_deref().and_then(|it| it.strip_prefix(GENERATION)?.parse::<u64>().ok());
        let next = format!("{GENERATION}{}", number.unwrap_or(0) + 1);
        write_generation_dir(&folder.join(&next), files, group)?;
        ignore_not_found(fs::remove_file(folder.join(NEXT)))?;
        // A leftover of an interrupted update was removed above.
        symlink(&next, folder.join(NEXT))?;
        fs::rename(folder.join(NEXT), folder.join(DATA))?;
    }
    show(folder, files)
}

/// Creates the symlinks of the current files, and removes stale symlinks and generations.
fn show(folder: &Path, files: &[ProjectedFile]) -> io::Result<()> {
    let tops: BTreeSet<&str> = files.iter().filter_map(|file| file.path.split('/').next()).collect();
    for top in &tops {
        let link = folder.join(top);
        if link.symlink_metadata().is_err() {
            symlink(Path::new(DATA).join(top), link)?;
        }
    }
    let now = fs::read_link(folder.join(DATA))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(GENERATION) && Path::new(&name) != now {
            fs::remove_dir_all(entry.path())?;
        } else if entry.file_type()?.is_symlink() && !name.starts_with("..") && !tops.contains(name.as_str())
        {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn mode_of(file: &ProjectedFile, group: Option<u32>) -> u32 {
    if group.is_some() { file.mode | 0o440 } else { file.mode }
}

fn write_generation_dir(folder: &Path, files: &[ProjectedFile], group: Option<u32>) -> io::Result<()> {
    ignore_not_found(fs::remove_dir_all(folder))?;
    fs::create_dir(folder)?;
    let mut folders = BTreeSet::from([folder.to_owned()]);
    for file in files {
        let path = folder.join(&file.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
            folders.extend(parent.ancestors().take_while(|it| it.starts_with(folder)).map(Path::to_owned));
        }
        fs::write(&path, &file.bytes)?;
        // Set after the write: the umask must not restrict the mode.
        set_mode(&path, mode_of(file, group))?;
        ignore_permission_denied(chown(&path, file.user, group))?;
    }
    for folder in folders {
        set_mode(&folder, 0o755)?;
        if let Some(group) = group {
            apply_group(&folder, group, 0o440)?;
        }
    }
    Ok(())
}

/// Whether the directory has exactly these files with these modes.
fn is_same(folder: &Path, files: &[ProjectedFile], group: Option<u32>) -> bool {
    let mut found = BTreeMap::new();
    if read_all(folder, folder, &mut found).is_err() {
        return false;
    }
    let wanted =
        files.iter().map(|file| (PathBuf::from(&file.path), (file.bytes.clone(), mode_of(file, group))));
    found == wanted.collect()
}

fn read_all(root: &Path, folder: &Path, found: &mut BTreeMap<PathBuf, (Vec<u8>, u32)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            read_all(root, &path, found)?;
            continue;
        }
        let mode = entry.metadata()?.mode() & 0o777;
        let within = path.strip_prefix(root).unwrap_or(&path).to_owned();
        found.insert(within, (fs::read(&path)?, mode));
    }
    Ok(())
}

/// Checks the `type` of a hostPath volume; creates it for the OrCreate types.
fn check_host_path(path: &Path, kind: HostKind) -> Result<(), String> {
    let there = path.try_exists().map_err(|why| with_path(path, &why))?;
    match kind {
        HostKind::Any | HostKind::DirectoryOrCreate if !there => {
            return fs::create_dir_all(path).map_err(|why| with_path(path, &why));
        }
        HostKind::FileOrCreate if !there => {
            return fs::write(path, []).map_err(|why| with_path(path, &why));
        }
        HostKind::Any => return Ok(()),
        _ => {}
    }
    let (wanted, word) = match kind {
        HostKind::File | HostKind::FileOrCreate => ("file", "File"),
        HostKind::Socket => ("socket file", "Socket"),
        HostKind::CharDevice => ("character device", "CharDevice"),
        HostKind::BlockDevice => ("block device", "BlockDevice"),
        _ => ("directory", "Directory"),
    };
    let shown = path.display();
    match host_path_type(path, there) {
        Ok(found) if found == word => Ok(()),
        Ok(found) => Err(format!("hostPath type check failed: {shown} is not a {wanted}, it's a {found}")),
        Err(why) => Err(format!(
            "hostPath type check failed, {shown} is not a {wanted}, unable to determine its type: {why}"
        )),
    }
}

fn host_path_type(path: &Path, there: bool) -> Result<&'static str, String> {
    if !there {
        return Err(format!("path {:?} does not exist", path.display().to_string()));
    }
    let kind = path.metadata().map_err(|why| why.to_string())?.file_type();
    Ok(match () {
        () if kind.is_dir() => "Directory",
        () if kind.is_file() => "File",
        () if kind.is_socket() => "Socket",
        () if kind.is_char_device() => "CharDevice",
        () if kind.is_block_device() => "BlockDevice",
        () => {
            return Err(
                "only recognise file, directory, socket, block device and character device".to_owned()
            );
        }
    })
}

/// Resolves a mount to an existing source within its volume.
pub(super) fn settle(wanted: &RequestedMount, isolation: Isolation) -> Result<Mount, String> {
    let source = match &wanted.part {
        None => wanted.root.clone(),
        Some(part) => part_of(wanted, part, isolation)?,
    };
    Ok(Mount { source, target: wanted.target.clone(), read_only: wanted.read_only })
}

fn part_of(wanted: &RequestedMount, part: &str, isolation: Isolation) -> Result<PathBuf, String> {
    let (volume, container) = (wanted.volume.as_str(), wanted.container.as_str());
    let of = format!("subPath directory for volumeMount {volume:?} of container {container:?}");
    if wanted.is_ours {
        create_within(&wanted.root, part).map_err(|why| format!("failed to create {of}: {why}"))?;
    }
    let path = wanted.root.join(part);
    let found = resolve_within(&wanted.root, &path);
    let of = format!("subPath for volumeMount {volume:?} of container {container:?}");
    let found = found.map_err(|why| format!("failed to prepare {of}: {why}"))?;
    // Without mount namespaces the path is a symlink followed at each access, so that projected updates are seen.
    Ok(if isolation == Isolation::None { path } else { found })
}

/// The canonical path, if it is within `root`.
fn resolve_within(root: &Path, path: &Path) -> Result<PathBuf, String> {
    let (root, found) = match (root.canonicalize(), path.canonicalize()) {
        (Ok(root), Ok(found)) => (root, found),
        (Err(why), _) => return Err(with_path(root, &why)),
        (_, Err(why)) => return Err(with_path(path, &why)),
    };
    if !found.starts_with(&root) {
        return Err(format!("{} leads out of the volume", path.display()));
    }
    Ok(found)
}

/// Creates the directories of a `subPath` one by one, so that no symlink leads out of the volume. They inherit the
/// volume's mode and group.
fn create_within(root: &Path, part: &str) -> Result<(), String> {
    let top = root.metadata().map_err(|why| with_path(root, &why))?;
    let mut here = root.to_owned();
    for step in part.split('/').filter(|step| !step.is_empty() && *step != ".") {
        let next = here.join(step);
        if next.symlink_metadata().is_err() {
            let made = fs::create_dir(&next).and_then(|()| {
                ignore_permission_denied(chown(&next, None, Some(top.gid())))?;
                set_mode(&next, top.mode() & 0o7777)
            });
            made.map_err(|why| with_path(&next, &why))?;
        }
        here = resolve_within(root, &next)?;
    }
    Ok(())
}

/// Reads a text file within a volume.
pub(super) fn read_inside(root: &Path, path: &str) -> Result<String, String> {
    let found = resolve_within(root, &root.join(path.trim_start_matches('/')))?;
    let wrong = |why: io::Error| with_path(&found, &why);
    let file = fs::File::open(&found).map_err(wrong)?;
    let mut content = String::new();
    let read = file.take(ENV_FILE_BYTES_MAX + 1).read_to_string(&mut content).map_err(wrong)?;
    if read as u64 > ENV_FILE_BYTES_MAX {
        return Err(format!("{} is larger than {ENV_FILE_BYTES_MAX} bytes", found.display()));
    }
    Ok(content)
}

/// Whether a directory of this `PATH` has an executable of this name.
pub(super) fn has_program(folders: &str, name: &str) -> bool {
    let is_program = |path: PathBuf| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    folders.split(':').filter(|it| !it.is_empty()).any(|it| is_program(Path::new(it).join(name)))
}
