//! The hosts of a mesh, from a file.

use anyhow::Context;
use quaver_instrument::exit_code::{ExitCode, failure};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// A host that is measured to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeshHost {
    /// Name on pages and in files.
    pub name: String,
    /// Address, or a name that resolves; none: the name.
    pub address: Option<String>,
    /// TCP port of its control connection; none: that of the command line.
    pub port: Option<u16>,
    /// Key that is shared with it; none: that of the command line. Relative to the file that names it.
    pub key_file: Option<PathBuf>,
}

impl MeshHost {
    /// What is resolved.
    pub(super) fn address(&self) -> &str {
        self.address.as_deref().unwrap_or(&self.name)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostsFile {
    #[serde(default)]
    host: Vec<MeshHost>,
}

/// Reads a file of `[[host]]` tables. One file serves all hosts: that with the name `here` is left out.
///
/// # Errors
/// The file cannot be read, is no such file, names a host twice, or no other than this one (status 5).
pub(super) fn read(path: &Path, here: &str) -> anyhow::Result<Vec<MeshHost>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("read the hosts of {}", path.display()))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    parse(&text, folder, here)
        .map_err(|what| failure(ExitCode::BadInput, format!("{}: {what}", path.display())))
}

/// Reads the text of such a file in `folder`. Errors are sentences.
pub(super) fn parse(text: &str, folder: &Path, here: &str) -> Result<Vec<MeshHost>, String> {
    let file: HostsFile = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut hosts: Vec<MeshHost> = Vec::new();
    for mut host in file.host {
        if host.name.is_empty() {
            return Err("a host has no name: give each a name of its own".to_owned());
        }
        if hosts.iter().any(|other| other.name == host.name) {
            return Err(format!("two hosts are named {}: give each a name of its own", host.name));
        }
        host.key_file = host.key_file.map(|key| folder.join(key));
        hosts.push(host);
    }
    hosts.retain(|host| host.name != here);
    if hosts.is_empty() {
        return Err(format!("it has no [[host]] besides this one ({here}): name the hosts to measure to"));
    }
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> anyhow::Result<Vec<MeshHost>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts.toml");
        std::fs::write(&path, text).unwrap();
        let mut hosts = read(&path, "oslo")?;
        for host in &mut hosts {
            let relative = host.key_file.take();
            host.key_file = relative.map(|key| key.strip_prefix(folder.path()).unwrap_or(&key).to_owned());
        }
        Ok(hosts)
    }

    #[test]
    fn one_file_serves_all_hosts() {
        let hosts = read_text(
            "[[host]]\nname = 'oslo'\n[[host]]\nname = 'bern'\naddress = '192.0.2.7'\nport = 99\nkey_file = 'k'\n\
             [[host]]\nname = 'roma.example'\n",
        )
        .unwrap();
        assert_eq!(hosts.iter().map(MeshHost::address).collect::<Vec<_>>(), ["192.0.2.7", "roma.example"]);
        assert_eq!((hosts[0].port, hosts[0].key_file.clone()), (Some(99), Some(PathBuf::from("k"))));
        assert_eq!((hosts[1].port, hosts[1].key_file.clone()), (None, None));
    }

    #[test]
    fn what_is_no_list_of_hosts_is_refused() {
        for (text, why) in [
            ("", "no [[host]]"),
            ("[[host]]\nname = 'oslo'", "besides this one (oslo)"),
            ("[[host]]\nname = ''", "no name"),
            ("[[host]]\nname = 'a'\n[[host]]\nname = 'a'", "two hosts are named a"),
            ("[[host]]\nname = 'a'\nprot = 3", "prot"),
            ("[[host]]\naddress = 'a'", "name"),
            ("[[host]]\nname = 'a'\nport = 70000", "70000"),
            ("hosts = 3", "hosts"),
        ] {
            let error = format!("{:#}", read_text(text).unwrap_err());
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
