//! Listening sockets of a service, and the secret for access.

use crate::reason;
use std::fs::{self, File};
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A non-blocking listening socket.
#[derive(Debug)]
pub enum Listening {
    /// A TCP port.
    Port(TcpListener),
    /// A Unix socket.
    Socket(UnixListener, Owned),
}

impl Listening {
    /// Listens on a port; for port 0 the system chooses one.
    ///
    /// # Errors
    /// The system's error.
    pub fn at_port(address: SocketAddr) -> io::Result<Listening> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Listening::Port(listener))
    }

    /// Listens on a path. A socket left by a killed instance is replaced. Every user may connect, so check the peer's credentials.
    ///
    /// # Errors
    /// The system's error, for example that the path is in use.
    pub fn at_path(path: &Path) -> io::Result<Listening> {
        let is_socket = fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
        if is_socket && UnixStream::connect(path).is_err() {
            fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        let owned = Owned(Some(path.to_owned()));
        fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
        listener.set_nonblocking(true)?;
        Ok(Listening::Socket(listener, owned))
    }

    /// The first socket passed by a service manager; `None` without one.
    ///
    /// # Errors
    /// The system's error, or that the socket is of another kind.
    pub fn passed() -> io::Result<Option<Listening>> {
        let mut passed = listenfd::ListenFd::from_env();
        if passed.len() == 0 {
            return Ok(None);
        }
        if let Ok(Some(listener)) = passed.take_tcp_listener(0) {
            listener.set_nonblocking(true)?;
            return Ok(Some(Listening::Port(listener)));
        }
        let Some(listener) = passed.take_unix_listener(0)? else { return Ok(None) };
        listener.set_nonblocking(true)?;
        Ok(Some(Listening::Socket(listener, Owned(None))))
    }
}

/// The path of a Unix socket, removed when the value is dropped; `None` for a passed socket.
#[derive(Debug)]
pub struct Owned(Option<PathBuf>);

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

/// Maximum length of a secret.
const SECRET_MAX: u64 = 4096;

/// The first line of a file that only its owner and group can read.
///
/// # Errors
/// A sentence: the file cannot be read, or other users can read it.
pub fn read_secret(path: &Path) -> Result<String, String> {
    let failed = |error: &io::Error| format!("cannot read {}: {}", path.display(), reason(error));
    let file = File::open(path).map_err(|error| failed(&error))?;
    let meta = file.metadata().map_err(|error| failed(&error))?;
    if meta.is_file() && meta.mode() & 0o007 != 0 {
        return Err(format!(
            "{} holds a secret, and all users can read it\nhint: chmod o= {}",
            path.display(),
            path.display()
        ));
    }
    let mut text = String::new();
    file.take(SECRET_MAX).read_to_string(&mut text).map_err(|error| failed(&error))?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_nothing_listens_on_is_replaced_and_goes_away_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        let first = Listening::at_path(&path).unwrap();
        assert_eq!(Listening::at_path(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(first);
        assert!(!path.exists());
        fs::write(&path, "a file").unwrap();
        assert!(Listening::at_path(&path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "a file");
    }

    #[test]
    fn a_secret_that_all_can_read_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        fs::write(&path, " 0123456789abcdef \nmore\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read_secret(&path).unwrap_err().contains("holds a secret, and all users can read it"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(read_secret(&path).unwrap(), "0123456789abcdef");
        assert!(read_secret(&dir.path().join("no")).unwrap_err().starts_with("cannot read "));
    }
}
