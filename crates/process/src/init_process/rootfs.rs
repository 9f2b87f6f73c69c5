//! The rootfs of a container: the host's file system, read-only, with volumes and private directories mounted into
//! it.
//!
//! The root is a tmpfs with a bind mount per entry of the host's root. To mount at a path that the host lacks, its
//! parent becomes a tmpfs with bind mounts of the parent's entries ("opened up"), and the missing entry is created
//! there.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Component, Path, PathBuf};

use crate::container_config::{ContainerConfig, Mount};
use crate::run_files;
use crate::system::mounts;

/// Directories with more entries are not opened up: a mount per entry would take seconds.
const ENTRIES_MAX: usize = 4096;
/// Maximum symlinks when resolving a path.
const LINKS_MAX: usize = 40;

/// A rootfs being built.
struct RootFs {
    /// Its path on the host.
    root: PathBuf,
    /// What backs each path inside; the deepest ancestor applies.
    backing: BTreeMap<PathBuf, Backing>,
}

/// What backs a directory of the rootfs.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Backing {
    /// A tmpfs: entries can be added.
    Memory,
    /// A bind mount of this host path: must not be modified.
    Machine(PathBuf),
    /// A writable volume: missing mount points are created in it, as container engines do.
    Volume,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Folder,
    File,
}

/// Builds the rootfs of a run and pivots into it. Features that could not be applied are added to `missing`.
///
/// # Errors
/// Names the path that failed.
pub fn enter(dir: &Path, launch: &ContainerConfig, missing: &mut Vec<String>) -> Result<(), String> {
    let said = |error: io::Error| format!("make a root for the container: {error}");
    // Paths in mountinfo have no symlinks.
    let root = fs::canonicalize(dir.join(run_files::ROOT)).map_err(said)?;
    let view = RootFs::begin(root.clone()).map_err(said)?;
    view.populate(dir, launch, missing)?;
    mounts::enter(&root).map_err(|error| format!("enter the container's root: {error}"))
}

impl RootFs {
    fn begin(root: PathBuf) -> io::Result<RootFs> {
        mounts::make_mounts_slave()?;
        mounts::mount_tmpfs(&root, "mode=755,size=16m")?;
        mounts::make_unbindable(&root)?;
        let mut view = RootFs { root, backing: BTreeMap::new() };
        view.show_entries(Path::new("/"), Path::new("/"), |name, _| !matches!(name, "tmp" | "dev" | "run"))?;
        Ok(view)
    }

    fn populate(
        mut self,
        dir: &Path,
        launch: &ContainerConfig,
        missing: &mut Vec<String>,
    ) -> Result<(), String> {
        let said = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
        self.make_dev(launch, missing).map_err(said("make /dev for the container"))?;
        self.make_run().map_err(said("make /run for the container"))?;
        self.make(Path::new("/tmp"), Form::Folder).map_err(said("make /tmp for the container"))?;
        // Mount points by whether they stay writable; all others become read-only below.
        let mut places = BTreeMap::from([
            (self.at(Path::new("/proc")), true),
            (self.at(Path::new("/dev/shm")), true),
            (self.at(Path::new("/dev/pts")), true),
        ]);
        for mount in own_mounts(dir, launch).iter().chain(&launch.mounts) {
            places.insert(self.put(mount)?, !mount.read_only);
        }
        if let Some(start) = &launch.dir {
            self.place(start, Form::Folder).map_err(said("make the working directory"))?;
        }
        // Landlock does not restrict chmod, chown and utime of files that the user owns; read-only mounts do.
        let refused = mounts::remount_all_read_only(&self.root, |at| may_write(&places, at))
            .map_err(said("make the machine's folders read-only"))?;
        missing.extend(refused.into_iter().map(|(at, error)| {
            let inside = at.strip_prefix(&self.root).unwrap_or(&at);
            format!("a read-only /{}: {error}", inside.display())
        }));
        Ok(())
    }

    /// `/dev` with the standard devices and accelerators, own terminals and shared memory; without disks and
    /// consoles.
    fn make_dev(&mut self, launch: &ContainerConfig, missing: &mut Vec<String>) -> io::Result<()> {
        let dev = Path::new("/dev");
        self.make(dev, Form::Folder)?;
        self.show_entries(dev, dev, |name, kind| !kind.is_block_device() && is_allowed_device(name))?;
        self.make(Path::new("/dev/pts"), Form::Folder)?;
        match mounts::mount_devpts(&self.at(Path::new("/dev/pts"))) {
            Ok(()) => symlink("pts/ptmx", self.at(Path::new("/dev/ptmx")))?,
            Err(error) => missing.push(format!("a /dev/pts of its own: {error}")),
        }
        self.make(Path::new("/dev/shm"), Form::Folder)?;
        // Bounds shared memory by the memory limit.
        let size = launch.limits.memory_bytes.map_or(String::new(), |bytes| format!(",size={bytes}"));
        mounts::mount_tmpfs(&self.at(Path::new("/dev/shm")), &format!("mode=1777{size}"))
    }

    /// `/run` without the host's service sockets. Symlinks are kept: some distributions have their programs behind
    /// one.
    fn make_run(&mut self) -> io::Result<()> {
        let run = Path::new("/run");
        self.make(run, Form::Folder)?;
        if run.is_dir() {
            self.show_entries(run, run, |_, kind| kind.is_symlink())?;
        }
        // `/etc/resolv.conf` often is a symlink into `/run`.
        match fs::canonicalize("/etc/resolv.conf") {
            Ok(names) if names.starts_with(run) => {
                self.try_put(&Mount { source: names.clone(), target: names, read_only: true }).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Mounts a volume; returns its path while the rootfs is built.
    fn put(&mut self, mount: &Mount) -> Result<PathBuf, String> {
        self.try_put(mount).map_err(|error| {
            format!("mount {} at {}: {error}", mount.source.display(), mount.target.display())
        })
    }

    fn try_put(&mut self, mount: &Mount) -> io::Result<PathBuf> {
        let form = if fs::metadata(&mount.source)?.is_dir() { Form::Folder } else { Form::File };
        let place = self.place(&mount.target, form)?;
        let at = self.at(&place);
        mounts::bind_mount(&mount.source, &at)?;
        if mount.read_only {
            mounts::remount_read_only(&at)?;
        }
        // The mount hides what was there.
        self.backing.retain(|path, _| !path.starts_with(&place));
        let backing = if mount.read_only { Backing::Machine(mount.source.clone()) } else { Backing::Volume };
        self.backing.insert(place, backing);
        Ok(at)
    }

    /// Resolves or creates a mount point; returns its path inside without symlinks.
    fn place(&mut self, target: &Path, form: Form) -> io::Result<PathBuf> {
        let mut done = PathBuf::from("/");
        let mut left = components_of(target);
        let mut links = 0;
        while let Some(word) = left.pop_front() {
            if word == ".." {
                done.pop();
                continue;
            }
            let next = done.join(&word);
            match fs::symlink_metadata(self.at(&next)) {
                Ok(found) if found.is_symlink() => {
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(io::Error::other("too many symbolic links on the way"));
                    }
                    let to = fs::read_link(self.at(&next))?;
                    if to.is_absolute() {
                        done = PathBuf::from("/");
                    }
                    for word in components_of(&to).into_iter().rev() {
                        left.push_front(word);
                    }
                }
                Ok(_) => done = next,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let last = left.is_empty();
                    // Missing on the host: make the parent a tmpfs, then create the entry.
                    self.open_up(&done)?;
                    self.make(&next, if last { form } else { Form::Folder })?;
                    done = next;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn make(&mut self, inside: &Path, form: Form) -> io::Result<()> {
        match form {
            Form::Folder => fs::create_dir(self.at(inside)),
            Form::File => File::create(self.at(inside)).map(drop),
        }
    }

    /// Makes a directory writable for new entries without modifying the host.
    fn open_up(&mut self, folder: &Path) -> io::Result<()> {
        let Some(from) = host_path_to_open(&self.backing, folder) else { return Ok(()) };
        mounts::mount_tmpfs(&self.at(folder), "mode=755,size=16m")?;
        self.backing.retain(|path, _| !path.starts_with(folder));
        self.show_entries(&from, folder, |_, _| true)
    }

    /// Bind-mounts the entries of a host directory into a tmpfs directory.
    fn show_entries(
        &mut self,
        from: &Path,
        to: &Path,
        wants: impl Fn(&str, &fs::FileType) -> bool,
    ) -> io::Result<()> {
        self.backing.insert(to.to_owned(), Backing::Memory);
        let mut count = 0;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let name = entry.file_name();
            if !wants(&name.to_string_lossy(), &kind) {
                continue;
            }
            count += 1;
            if count > ENTRIES_MAX {
                return Err(io::Error::other(format!(
                    "{} has more than {ENTRIES_MAX} entries",
                    from.display()
                )));
            }
            let inside = to.join(name);
            show_entry(&entry.path(), &self.at(&inside), kind)?;
            self.backing.insert(inside, Backing::Machine(entry.path()));
        }
        Ok(())
    }

    /// The path on the host while the rootfs is built.
    fn at(&self, inside: &Path) -> PathBuf {
        self.root.join(inside.strip_prefix("/").unwrap_or(inside))
    }
}

/// The host path of a directory that must be opened up; `None` if entries can be added.
fn host_path_to_open(backing: &BTreeMap<PathBuf, Backing>, folder: &Path) -> Option<PathBuf> {
    let (above, backing) =
        folder.ancestors().find_map(|path| backing.get(path).map(|backing| (path, backing)))?;
    match backing {
        Backing::Memory | Backing::Volume => None,
        Backing::Machine(from) => Some(from.join(folder.strip_prefix(above).unwrap_or(Path::new("")))),
    }
}

fn show_entry(from: &Path, to: &Path, kind: fs::FileType) -> io::Result<()> {
    if kind.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    if kind.is_dir() {
        fs::create_dir(to)?;
    } else {
        File::create(to)?;
    }
    match mounts::bind_mount(from, to) {
        // Entries that this user cannot access stay empty.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        // The entry was removed meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Mounts that every container has.
fn own_mounts(dir: &Path, launch: &ContainerConfig) -> Vec<Mount> {
    let own = |source: PathBuf, target: &Path, read_only: bool| Mount {
        source,
        target: target.to_owned(),
        read_only,
    };
    let mut all = vec![
        own(launch.hosts.clone(), Path::new("/etc/hosts"), true),
        own(dir.join(run_files::MESSAGE), &launch.message_path, false),
    ];
    if !launch.read_only_root {
        all.push(own(dir.join(run_files::TMP), Path::new("/tmp"), false));
    }
    all
}

/// Whether a mount stays writable: the deepest ancestor decides.
fn may_write(places: &BTreeMap<PathBuf, bool>, at: &Path) -> bool {
    at.ancestors().find_map(|path| places.get(path)).copied().unwrap_or(false)
}

/// Standard devices and accelerators.
fn is_allowed_device(name: &str) -> bool {
    matches!(name, "null" | "zero" | "full" | "random" | "urandom" | "tty")
        || matches!(name, "fd" | "stdin" | "stdout" | "stderr")
        || matches!(name, "dri" | "kfd" | "infiniband")
        || name.starts_with("nvidia")
}

/// The components of a path.
fn components_of(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|it| match it {
            Component::Normal(word) => Some(word.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_to_open_up() {
        let backing = BTreeMap::from([
            (PathBuf::from("/"), Backing::Memory),
            (PathBuf::from("/run"), Backing::Machine("/run".into())),
            (PathBuf::from("/data"), Backing::Volume),
            (PathBuf::from("/run/model"), Backing::Machine("/srv/model".into())),
        ]);
        let cases = [
            ("the root is in memory", "/", None),
            ("so is what was made in it", "/new/deep", None),
            ("the machine's folder", "/run", Some("/run")),
            ("a folder in the machine's folder", "/run/lock/x", Some("/run/lock/x")),
            ("a volume takes folders itself", "/data/sub", None),
            ("a read-only volume does not", "/run/model/sub", Some("/srv/model/sub")),
        ];
        for (says, folder, want) in cases {
            assert_eq!(host_path_to_open(&backing, Path::new(folder)), want.map(PathBuf::from), "{says}");
        }
    }

    #[test]
    fn devices() {
        let cases = [
            ("null", true),
            ("tty", true),
            ("nvidia0", true),
            ("dri", true),
            ("tty1", false),
            ("kmsg", false),
            ("fuse", false),
            ("vda", false),
        ];
        for (name, want) in cases {
            assert_eq!(is_allowed_device(name), want, "{name}");
        }
    }

    #[test]
    fn the_deepest_mount_decides() {
        let places = [("/r/data", true), ("/r/data/model", false), ("/r/data/model/cache", true)]
            .map(|(at, may)| (PathBuf::from(at), may));
        let cases = [
            ("the machine's", "/r/etc", false),
            ("a volume", "/r/data", true),
            ("something mounted in it", "/r/data/disk", true),
            ("a read-only volume in a volume", "/r/data/model/disk", false),
            ("one in that", "/r/data/model/cache", true),
            ("a namesake", "/r/data2", false),
        ];
        for (says, at, want) in cases {
            assert_eq!(may_write(&places.clone().into(), Path::new(at)), want, "{says}");
        }
    }
}
