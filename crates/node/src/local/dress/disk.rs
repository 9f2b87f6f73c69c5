//! Volumes on disk: the one place of this folder that touches it.
//!
//! # Invariants
//!
//! - Everything may be repeated, and be cut off anywhere: what was half made is never used.
//! - Files are swapped all at once: each name is a link through `..data`, which names the folder of one generation.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use muster_process::{Isolation, Mount};

use super::files::File;
use super::mounts::Wanted;
use super::volume::{HostKind, Volume};

/// The link that names the files of now.
const DATA: &str = "..data";
/// Where that link is made.
const NEXT: &str = "..data.next";
/// How the folders of generations begin.
const GENERATION: &str = "..v";
/// Largest file with variables.
const ENV_FILE_BYTES_MAX: u64 = 1 << 20;
/// Everybody may use an empty folder: its users are those of one pod.
const SCRATCH_MODE: u32 = 0o777;

/// Puts a volume on disk. May be repeated: readers of files never see half of a change.
///
/// # Errors
/// What is wrong with it, or what the system said.
pub fn lay(volume: &Volume) -> Result<(), String> {
    match volume {
        Volume::Scratch { folder, group, .. } => lay_folder(folder, *group).map_err(|why| told(folder, &why)),
        Volume::Files { folder, files, group } => {
            lay_files(folder, files, *group).map_err(|why| told(folder, &why))
        }
        Volume::Host { path, kind } => check_host(path, *kind),
        Volume::Claim { path, kind, group, read_only } => {
            check_host(path, *kind)?;
            match group {
                Some(group) if !read_only => give(path, *group, 0o660).map_err(|why| told(path, &why)),
                _ => Ok(()),
            }
        }
    }
}

fn told(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Makes an empty folder, unless it is there: it appears with its mode and group, or not at all.
fn lay_folder(folder: &Path, group: Option<u32>) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    // No volume has a name with dots at its beginning.
    let new = folder.with_file_name(format!("..{name}"));
    gone(fs::remove_dir_all(&new))?;
    fs::create_dir_all(&new)?;
    set_mode(&new, SCRATCH_MODE)?;
    if let Some(group) = group {
        give(&new, group, 0o660)?;
    }
    fs::rename(new, folder)
}

fn gone(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Gives a file or folder to a group, with these rights.
fn give(path: &Path, group: u32, rights: u32) -> io::Result<()> {
    refused_is_fine(chown(path, None, Some(group)))?;
    let found = fs::metadata(path)?;
    // What is made in a folder is the group's too.
    let more = if found.is_dir() { rights | 0o2110 } else { rights };
    let mode = found.mode() & 0o7777;
    if mode | more == mode {
        return Ok(());
    }
    refused_is_fine(set_mode(path, mode | more))
}

/// An ordinary user cannot give things away, and need not: all its containers are that user.
fn refused_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other,
    }
}

fn lay_files(folder: &Path, files: &[File], group: Option<u32>) -> io::Result<()> {
    if !folder.is_dir() {
        fs::create_dir_all(folder)?;
        set_mode(folder, 0o755)?;
    }
    if let Some(group) = group {
        give(folder, group, 0o440)?;
    }
    let now = fs::read_link(folder.join(DATA)).ok().and_then(|it| it.to_str().map(str::to_owned));
    if !now.as_ref().is_some_and(|now| is_same(&folder.join(now), files, group)) {
        let number = now.as_deref().and_then(|it| it.strip_prefix(GENERATION)?.parse::<u64>().ok());
        let next = format!("{GENERATION}{}", number.unwrap_or(0) + 1);
        write_generation(&folder.join(&next), files, group)?;
        gone(fs::remove_file(folder.join(NEXT)))?;
        symlink(&next, folder.join(NEXT))?;
        fs::rename(folder.join(NEXT), folder.join(DATA))?;
    }
    show(folder, files)
}

/// Makes the names of the files visible, and removes what belongs to none.
fn show(folder: &Path, files: &[File]) -> io::Result<()> {
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

fn mode_of(file: &File, group: Option<u32>) -> u32 {
    if group.is_some() { file.mode | 0o440 } else { file.mode }
}

fn write_generation(folder: &Path, files: &[File], group: Option<u32>) -> io::Result<()> {
    gone(fs::remove_dir_all(folder))?;
    fs::create_dir(folder)?;
    let mut folders = BTreeSet::from([folder.to_owned()]);
    for file in files {
        let path = folder.join(&file.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
            folders.extend(parent.ancestors().take_while(|it| it.starts_with(folder)).map(Path::to_owned));
        }
        fs::write(&path, &file.bytes)?;
        set_mode(&path, mode_of(file, group))?;
        refused_is_fine(chown(&path, file.user, group))?;
    }
    for folder in folders {
        set_mode(&folder, 0o755)?;
        if let Some(group) = group {
            give(&folder, group, 0o440)?;
        }
    }
    Ok(())
}

/// Whether a folder holds these files and no others.
fn is_same(folder: &Path, files: &[File], group: Option<u32>) -> bool {
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

/// Whether something of this machine is what it must be; made where it may be.
fn check_host(path: &Path, kind: HostKind) -> Result<(), String> {
    let there = path.try_exists().map_err(|why| told(path, &why))?;
    match kind {
        HostKind::Any | HostKind::DirectoryOrCreate if !there => {
            return fs::create_dir_all(path).map_err(|why| told(path, &why));
        }
        HostKind::FileOrCreate if !there => {
            return fs::write(path, []).map_err(|why| told(path, &why));
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
    let path_words = path.display();
    match host_word(path, there) {
        Ok(found) if found == word => Ok(()),
        Ok(found) => {
            Err(format!("hostPath type check failed: {path_words} is not a {wanted}, it's a {found}"))
        }
        Err(why) => Err(format!(
            "hostPath type check failed, {path_words} is not a {wanted}, unable to determine its type: {why}"
        )),
    }
}

fn host_word(path: &Path, there: bool) -> Result<&'static str, String> {
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

/// A mount whose source is there and within its volume.
pub(super) fn settle(wanted: &Wanted, isolation: Isolation) -> Result<Mount, String> {
    let source = match &wanted.part {
        None => wanted.root.clone(),
        Some(part) => part_of(wanted, part, isolation)?,
    };
    Ok(Mount { source, target: wanted.target.clone(), read_only: wanted.read_only })
}

fn part_of(wanted: &Wanted, part: &str, isolation: Isolation) -> Result<PathBuf, String> {
    let (volume, container) = (wanted.volume.as_str(), wanted.container.as_str());
    let of = format!("subPath directory for volumeMount {volume:?} of container {container:?}");
    if wanted.is_ours {
        make_inside(&wanted.root, part).map_err(|why| format!("failed to create {of}: {why}"))?;
    }
    let path = wanted.root.join(part);
    let found = inside(&wanted.root, &path);
    let of = format!("subPath for volumeMount {volume:?} of container {container:?}");
    let found = found.map_err(|why| format!("failed to prepare {of}: {why}"))?;
    // Without a mount it is a link that the container follows, and files may be swapped under it.
    Ok(if isolation == Isolation::None { path } else { found })
}

/// Where a path leads, if it does not lead out of `root`.
fn inside(root: &Path, path: &Path) -> Result<PathBuf, String> {
    let (root, found) = match (root.canonicalize(), path.canonicalize()) {
        (Ok(root), Ok(found)) => (root, found),
        (Err(why), _) => return Err(told(root, &why)),
        (_, Err(why)) => return Err(told(path, &why)),
    };
    if !found.starts_with(&root) {
        return Err(format!("{} leads out of the volume", path.display()));
    }
    Ok(found)
}

/// Makes the folders of a part, step by step, so that no link leads out. They get the rights of the volume.
fn make_inside(root: &Path, part: &str) -> Result<(), String> {
    let top = root.metadata().map_err(|why| told(root, &why))?;
    let mut here = root.to_owned();
    for step in part.split('/').filter(|step| !step.is_empty() && *step != ".") {
        let next = here.join(step);
        if next.symlink_metadata().is_err() {
            let made = fs::create_dir(&next).and_then(|()| {
                refused_is_fine(chown(&next, None, Some(top.gid())))?;
                set_mode(&next, top.mode() & 0o7777)
            });
            made.map_err(|why| told(&next, &why))?;
        }
        here = inside(root, &next)?;
    }
    Ok(())
}

/// A text file within a volume.
pub(super) fn read_inside(root: &Path, path: &str) -> Result<String, String> {
    let found = inside(root, &root.join(path.trim_start_matches('/')))?;
    let wrong = |why: io::Error| told(&found, &why);
    let file = fs::File::open(&found).map_err(wrong)?;
    let mut words = String::new();
    let read = file.take(ENV_FILE_BYTES_MAX + 1).read_to_string(&mut words).map_err(wrong)?;
    if read as u64 > ENV_FILE_BYTES_MAX {
        return Err(format!("{} is larger than {ENV_FILE_BYTES_MAX} bytes", found.display()));
    }
    Ok(words)
}

/// Whether one of these folders, with colons between them, has this program.
pub(super) fn has_program(folders: &str, name: &str) -> bool {
    let is_program = |path: PathBuf| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    folders.split(':').filter(|it| !it.is_empty()).any(|it| is_program(Path::new(it).join(name)))
}
