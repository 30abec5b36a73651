//! The folder of an embedded Postgres: lock, owner, cluster and socket.
//!
//! In: the path from the settings. Out: a locked folder with a cluster in it that the server may open.
//! No process of this machine opens a cluster without holding the lock of its folder.
//! As root, everything the server touches belongs to an unprivileged user.

use std::{
    fs::{self, File, OpenOptions, Permissions, TryLockError},
    io::{self, Write as _},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{
            DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown,
        },
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use nix::{
    errno::Errno,
    sys::signal::kill,
    unistd::{Pid, User, geteuid},
};
use uuid::Uuid;

use super::{
    PostgresError, STOP_TIMEOUT,
    installation::{self, Installation, OLDEST_MAJOR},
    io_error, look_until, tail,
};

/// Bytes of a socket's path that every system allows (macOS: 103).
const SOCKET_PATH_MAX: usize = 100;
const SOCKET_NAME: &str = ".s.PGSQL.5432";
const LOCALE: &str = if cfg!(target_os = "linux") { "C.UTF-8" } else { "C" };

/// Makes the folders above the data; root's are open to pass through, whatever the umask, as its Postgres is not root.
fn make_parents(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        make_parents(parent)?;
    }
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        // Somebody else's, made just now.
        Err(_) => return Ok(()),
        Ok(()) => {}
    }
    if geteuid().is_root() {
        fs::set_permissions(folder, Permissions::from_mode(0o711))?;
    }
    Ok(())
}

/// The data folder: locked, and owned by the user that the server runs as.
pub struct Folder {
    pub path: PathBuf,
    pub lock: File,
    /// Whom to run as instead of root.
    user: Option<User>,
}

impl Folder {
    pub fn open(data_dir: &Path) -> Result<Self, PostgresError> {
        let make = || -> io::Result<PathBuf> {
            if let Some(parent) = data_dir.parent() {
                make_parents(parent)?;
            }
            match fs::DirBuilder::new().mode(0o700).create(data_dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Ok(()) | Err(_) => {}
            }
            data_dir.canonicalize()
        };
        let path = make().map_err(io_error("making the data folder", data_dir))?;
        let lock_path = path.join("longhaul.lock");
        let mut entries =
            fs::read_dir(&path).map_err(io_error("reading the data folder", &path))?;
        // A fresh disk has a folder lost+found.
        let foreign =
            entries.any(|entry| entry.is_ok_and(|entry| entry.file_name() != "lost+found"));
        if foreign && !lock_path.exists() {
            return Err(PostgresError::NotOurs { data_dir: path });
        }
        let lock = take_lock(&path, &lock_path)?;
        let user = unprivileged_user(&path)?;
        if let Some(user) = &user {
            chown(&path, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
                .map_err(io_error("giving away the data folder", &path))?;
        }
        fs::set_permissions(&path, Permissions::from_mode(0o700))
            .map_err(io_error("closing the data folder to others", &path))?;
        let folder = Self { path, lock, user };
        folder.check_reach(&folder.path)?;
        Ok(folder)
    }

    pub fn cluster(&self) -> PathBuf {
        self.path.join("cluster")
    }

    /// The installation that fits the cluster, or the preferred one for a new cluster.
    pub fn installation(&self) -> Result<Installation, PostgresError> {
        let cluster = self.cluster();
        let made_by = installation::find_major_of(&cluster)
            .map_err(io_error("reading the version of", &cluster))?;
        choose(installation::find_all(), made_by, &self.path)
    }

    /// Makes the cluster under a temporary name, so that one which was half made is never opened.
    pub fn make_cluster(&self, with: &Installation, durable: bool) -> Result<bool, PostgresError> {
        let cluster = self.cluster();
        if cluster.exists() {
            return Ok(false);
        }
        let half_made = self.path.join("cluster.new");
        match fs::remove_dir_all(&half_made) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io_error("removing the half-made cluster", &half_made)(error));
            }
            Ok(()) | Err(_) => {}
        }
        let mut initdb = self.command(&with.bin.join("initdb"));
        initdb.arg("-D").arg(&half_made).args(["-U", "postgres", "-E", "UTF8", "-A", "trust"]);
        initdb.arg(format!("--locale={LOCALE}")).args(["--data-checksums", "--no-instructions"]);
        if !durable {
            initdb.arg("--no-sync");
        }
        // Should this process die now, the lock stays with initdb, and nobody works beside it.
        let held = self.lock.try_clone().map_err(io_error("keeping the lock of", &self.path))?;
        let output =
            initdb.stdin(held).output().map_err(io_error("running initdb of", &with.bin))?;
        if !output.status.success() {
            return Err(PostgresError::Initdb { output: tail(&output.stderr) });
        }
        fs::rename(&half_made, &cluster)
            .and_then(|()| File::open(&self.path)?.sync_all())
            .map_err(io_error("moving the new cluster to", &cluster))?;
        Ok(true)
    }

    /// A command that runs as the user of the server, wherever this process stands.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/").env("LC_ALL", "C").stdin(Stdio::null());
        if let Some(user) = &self.user {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        command
    }

    /// Asks as the user of the server, since only the kernel knows all the rules of access.
    fn check_reach(&self, path: &Path) -> Result<(), PostgresError> {
        let Some(user) = &self.user else { return Ok(()) };
        let status = self
            .command(Path::new("/bin/sh"))
            .args(["-c", r#"cd "$1" 2>/dev/null"#, "sh"])
            .arg(path)
            .status()
            .map_err(io_error("asking for the reach of", path))?;
        if status.success() {
            return Ok(());
        }
        Err(PostgresError::Unreachable { path: path.to_path_buf(), user: user.name.clone() })
    }
}

/// The folder of the socket; the data folder's own, unless that path does not fit a socket.
#[derive(Debug)]
pub struct SocketDir {
    pub path: PathBuf,
    temporary: bool,
}

impl SocketDir {
    pub fn make(folder: &Folder) -> Result<Self, PostgresError> {
        let short = format!("longhaul-{}", &Uuid::new_v4().simple().to_string()[..12]);
        let candidates = [
            folder.path.join("socket"),
            std::env::temp_dir().join(&short),
            Path::new("/tmp").join(&short),
        ];
        let (place, path) = candidates
            .into_iter()
            .enumerate()
            .find(|(_, path)| fits_a_socket(path))
            .ok_or(PostgresError::SocketPath)?;
        let socket_dir = Self { temporary: place > 0, path };
        let path = &socket_dir.path;
        match fs::DirBuilder::new().mode(0o700).create(path) {
            // A temporary folder that someone else made under this name is never trusted.
            Err(error) if socket_dir.temporary || error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(io_error("making the folder of the socket", path)(error));
            }
            Ok(()) | Err(_) => {}
        }
        if let Some(user) = &folder.user {
            chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
                .map_err(io_error("giving away the folder of the socket", path))?;
        }
        Ok(socket_dir)
    }
}

/// Server and clients take a comma for the end of a path, and the server a quote for its beginning.
fn fits_a_socket(folder: &Path) -> bool {
    let socket = folder.join(SOCKET_NAME);
    let bytes = socket.as_os_str().as_bytes();
    bytes.len() <= SOCKET_PATH_MAX && !bytes.iter().any(|byte| matches!(byte, b',' | b'"'))
}

impl Drop for SocketDir {
    fn drop(&mut self) {
        if self.temporary {
            // After a stop the folder is empty; a server that is still ending unlinks nothing it lacks.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Takes the lock, after the shutdown of a server whose holder is dead or has let go.
fn take_lock(folder: &Path, path: &Path) -> Result<File, PostgresError> {
    let failed = io_error("locking", path);
    let mut lock = OpenOptions::new()
        .create(true)
        .read(true)
        .write(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(&failed)?;
    let mut taken = lock.try_lock();
    look_until(STOP_TIMEOUT, || {
        taken = lock.try_lock();
        match taken {
            Err(TryLockError::WouldBlock) => find_holder(path).is_some(),
            Ok(()) | Err(TryLockError::Error(_)) => true,
        }
    });
    match (taken, find_holder(path)) {
        (Ok(()), _) => {}
        (Err(TryLockError::Error(source)), _) => return Err(failed(source)),
        (Err(TryLockError::WouldBlock), Some(process)) => {
            return Err(PostgresError::InUse { data_dir: folder.to_path_buf(), process });
        }
        (Err(TryLockError::WouldBlock), None) => {
            return Err(PostgresError::StillStopping { data_dir: folder.to_path_buf() });
        }
    }
    lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id())).map_err(failed)?;
    Ok(lock)
}

/// The living process that wrote its id into the lock file.
fn find_holder(lock: &Path) -> Option<i32> {
    let process: i32 = fs::read_to_string(lock).ok()?.trim().parse().ok()?;
    (kill(Pid::from_raw(process), None) != Err(Errno::ESRCH)).then_some(process)
}

/// The user to run as instead of root: the folder's owner, or one that exists for such things.
fn unprivileged_user(folder: &Path) -> Result<Option<User>, PostgresError> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let owner = fs::metadata(folder).map_err(io_error("reading the owner of", folder))?.uid();
    let from_folder = (owner != 0).then(|| User::from_uid(owner.into()).ok().flatten()).flatten();
    let named = || ["postgres", "nobody"].iter().find_map(|name| User::from_name(name).ok()?);
    from_folder.or_else(named).map(Some).ok_or(PostgresError::NoUser)
}

/// The installation that made the cluster, or the first that is new enough for a new one.
pub fn choose(
    installed: Vec<Installation>,
    made_by: Option<u32>,
    data_dir: &Path,
) -> Result<Installation, PostgresError> {
    let majors: Vec<String> = installed.iter().map(|found| found.major.to_string()).collect();
    let found = majors.join(", ");
    let fits = |major| made_by.map_or(major >= OLDEST_MAJOR, |made_by| major == made_by);
    match (installed.into_iter().find(|found| fits(found.major)), made_by) {
        (Some(installation), _) => Ok(installation),
        (None, Some(made_by)) if !found.is_empty() => {
            Err(PostgresError::WrongVersion { data_dir: data_dir.to_path_buf(), made_by, found })
        }
        (None, _) if found.is_empty() => Err(PostgresError::NotInstalled { found }),
        (None, _) => Err(PostgresError::NotInstalled { found: format!(" (only {found})") }),
    }
}
