//! Who may ask at an address: whoever has the token, by TLS where there is a certificate.

use anyhow::Context;
use quaver_instrument::exit_code::{ExitCode, failure};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::Deserialize;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Fewer characters are guessed in the end.
const LEAST_TOKEN: usize = 16;

/// The table `[metrics_access]`: files of a token and of a certificate with its key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessSettings {
    /// A secret that a scrape has to show.
    pub token_file: Option<PathBuf>,
    /// Certificates in PEM, the server's own first.
    pub certificate_file: Option<PathBuf>,
    /// The private key of the first certificate.
    pub key_file: Option<PathBuf>,
}

impl AccessSettings {
    /// What other hosts reach is for those who have the token, and nobody on the way reads it.
    ///
    /// # Errors
    /// A sentence: files are missing for what `address` lets others reach.
    pub fn judge(&self, address: Option<SocketAddr>) -> Result<(), String> {
        if self.certificate_file.is_some() != self.key_file.is_some() {
            return Err("metrics_access: certificate_file and key_file go together".to_owned());
        }
        let open = self.token_file.is_none() || self.key_file.is_none();
        match address.filter(|address| open && !address.ip().is_loopback()) {
            Some(address) => Err(format!(
                "metrics: other hosts may reach {address}: give [metrics_access] a token_file, a certificate_file and a \
                 key_file, or listen at 127.0.0.1:{}",
                address.port()
            )),
            None => Ok(()),
        }
    }
}

/// What an address asks for.
#[derive(Clone, Default)]
pub struct Access {
    token: Option<String>,
    pub(crate) tls: Option<Arc<ServerConfig>>,
}

impl Access {
    /// Reads the table `[metrics_access]` of a TOML file, and the files that it names, for an address.
    ///
    /// # Errors
    /// The file cannot be read or has no such table, or the table does not do for `address`; as [`Access::read`].
    pub fn of_file(file: Option<&Path>, address: SocketAddr) -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        struct Tables {
            metrics_access: AccessSettings,
        }
        let settings = match file {
            None => AccessSettings::default(),
            Some(file) => {
                let of_file = || format!("read [metrics_access] of {}", file.display());
                let text = std::fs::read_to_string(file).with_context(of_file)?;
                let tables: Tables = toml::from_str(&text)
                    .map_err(|error| failure(ExitCode::Usage, format!("{}: {error}", of_file())))?;
                tables.metrics_access
            }
        };
        let wrong = |what| {
            let remedy = if file.is_none() { " (--metrics-access names the file that has it)" } else { "" };
            failure(ExitCode::Usage, format!("{what}{remedy}"))
        };
        settings.judge(Some(address)).map_err(wrong)?;
        Self::read(&settings)
    }

    /// Reads the files that the settings name.
    ///
    /// # Errors
    /// One cannot be read, is no such file, or is a secret that everybody may read.
    pub fn read(settings: &AccessSettings) -> anyhow::Result<Self> {
        let token = settings.token_file.as_ref().map(|file| read_token(file)).transpose()?;
        let files = settings.certificate_file.as_ref().zip(settings.key_file.as_ref());
        let tls = files.map(|(certificate, key)| read_tls(certificate, key)).transpose()?;
        Ok(Self { token, tls })
    }

    /// Whether it is asked by TLS.
    pub const fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether a request with this header may be answered. The time that it takes tells nothing of the token but its length.
    pub(crate) fn admits(&self, authorization: Option<&str>) -> bool {
        let Some(token) = &self.token else { return true };
        let (scheme, given) =
            authorization.and_then(|header| header.trim().split_once(' ')).unwrap_or_default();
        scheme.eq_ignore_ascii_case("bearer") && bool::from(given.trim().as_bytes().ct_eq(token.as_bytes()))
    }
}

fn wrong(what: &str, file: &Path, why: &str) -> anyhow::Error {
    failure(ExitCode::Usage, format!("metrics_access.{what}: {}: {why}", file.display()))
}

/// The secret's file is not everybody's.
fn read_secret(what: &str, file: &Path) -> anyhow::Result<String> {
    let of_file = |error: std::io::Error| wrong(what, file, &error.to_string());
    let mode = std::fs::metadata(file).map_err(of_file)?.permissions().mode();
    if mode & 0o007 != 0 {
        return Err(wrong(what, file, "everybody may use it (chmod o= takes that away)"));
    }
    std::fs::read_to_string(file).map_err(of_file)
}

fn read_token(file: &Path) -> anyhow::Result<String> {
    let text = read_secret("token_file", file)?;
    let token = text.trim();
    if token.len() < LEAST_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let why = format!(
            "a token has {LEAST_TOKEN} characters or more, and no space (`openssl rand -hex 32` makes one)"
        );
        return Err(wrong("token_file", file, &why));
    }
    Ok(token.to_owned())
}

fn read_tls(certificate: &Path, key: &Path) -> anyhow::Result<Arc<ServerConfig>> {
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| wrong("certificate_file", certificate, &error.to_string()))?;
    let secret = read_secret("key_file", key)?;
    let secret = PrivateKeyDer::from_pem_slice(secret.as_bytes())
        .map_err(|error| wrong("key_file", key, &error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let plain = versions.context("choose versions of TLS")?.with_no_client_auth();
    let config = plain.with_single_cert(chain, secret).map_err(|error| {
        wrong("certificate_file", certificate, &format!("it does not go with {}: {error}", key.display()))
    })?;
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(place: &tempfile::TempDir, text: &str, mode: u32) -> PathBuf {
        let path = place.path().join(format!("{mode:o}-{}", text.len()));
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn the_token_alone_admits_and_no_token_admits_all() {
        let place = tempfile::tempdir().unwrap();
        let token_file = file(&place, "0123456789abcdef\n", 0o640);
        let access =
            Access::read(&AccessSettings { token_file: Some(token_file), ..Default::default() }).unwrap();
        for header in ["Bearer 0123456789abcdef", " bearer  0123456789abcdef "] {
            assert!(access.admits(Some(header)), "{header}");
        }
        let others = [
            "Bearer 0123456789abcdeg",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "Bearer ",
            "Bearer",
            "0123456789abcdef",
            "Basic 0123456789abcdef",
            "",
        ];
        assert!(others.iter().all(|header| !access.admits(Some(header))) && !access.admits(None));
        assert!(Access::default().admits(None));
    }

    #[test]
    fn secrets_of_everybody_and_files_that_are_none_are_refused_with_what_to_do() {
        let place = tempfile::tempdir().unwrap();
        let why = |settings: AccessSettings| Access::read(&settings).map(drop).unwrap_err().to_string();
        let of_token =
            |token_file| why(AccessSettings { token_file: Some(token_file), ..Default::default() });
        let open = of_token(file(&place, "0123456789abcdef", 0o644));
        assert!(open.contains("chmod o="), "{open}");
        for text in ["0123456789abcde", "0123456789 abcdef", ""] {
            let short = of_token(file(&place, text, 0o600));
            assert!(short.contains("openssl rand"), "{short}");
        }
        assert!(of_token(place.path().join("none")).contains("metrics_access.token_file: "));
        let no_pem = file(&place, "no certificate", 0o600);
        let both = AccessSettings {
            certificate_file: Some(no_pem.clone()),
            key_file: Some(no_pem),
            ..Default::default()
        };
        let no_key = why(both);
        assert!(no_key.contains("metrics_access.key_file: "), "{no_key}");
    }
}
