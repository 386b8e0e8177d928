//! Pictures of training rows: files of a folder, addresses of another server, or an array of images.
//!
//! A request contains only the number of a row, never a path. The file of a row is `NUMBER.EXTENSION` in the folder, with one of a fixed
//! list of extensions. After symbolic links are resolved, its path must be inside the folder.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use axum::http::StatusCode;
use nuq_io::{ArraySpec, Images};

use crate::Error;
use crate::error::ApiError;

/// Extensions of picture files and their content types. SVG is not among them, because it can contain scripts.
const TYPES: [(&str, &str); 6] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("webp", "image/webp"),
    ("gif", "image/gif"),
    ("avif", "image/avif"),
];

/// Largest picture file in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// The placeholder of the row number in an address.
const ROW: &str = "{row}";

/// The option `--pictures [NAME=]SOURCE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PictureSource {
    /// The name of the model; `None` for all models.
    pub model: Option<String>,
    /// A folder, an address that contains `{row}`, or an array of images as `FILE` or `FILE:NAME`.
    pub location: String,
}

impl PictureSource {
    /// Parses `NAME=SOURCE` or `SOURCE`.
    ///
    /// ```
    /// use nuq_server::PictureSource;
    /// assert_eq!(PictureSource::parse("cats=photos").model.as_deref(), Some("cats"));
    /// assert_eq!(PictureSource::parse("https://example.org/?row={row}").model, None);
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        match text.split_once('=') {
            // The path of an existing file may contain an equals sign.
            Some((name, location)) if is_name(name) && !name.is_empty() && !Path::new(text).exists() => {
                Self { model: Some(name.to_owned()), location: location.to_owned() }
            }
            _ => Self { model: None, location: text.to_owned() },
        }
    }

    /// Whether these are the pictures of a model.
    pub(crate) fn is_of(&self, model: &str) -> bool {
        self.model.as_deref().is_none_or(|name| name == model)
    }

    /// The same as [`parse`](Self::parse), for parsers of options.
    ///
    /// # Errors
    /// A message if the text is empty.
    pub fn parse_option(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err("a source is required".to_owned()) } else { Ok(Self::parse(text)) }
    }
}

/// The pictures of all models.
#[derive(Debug, Default)]
pub(crate) struct AllPictures {
    sources: BTreeMap<String, Pictures>,
}

impl AllPictures {
    /// Opens the pictures of the models with these names.
    pub(crate) fn open(sources: &[PictureSource], models: &[&str]) -> Result<Self, Error> {
        let mut all = Self::default();
        for source in sources {
            let option = format!("--pictures {}", source.location);
            let names: Vec<&str> = match &source.model {
                None => models.to_vec(),
                Some(name) if models.contains(&name.as_str()) => vec![name],
                Some(name) => {
                    let known = models.join(", ");
                    return Err(Error::Usage(format!(
                        "{option}: there is no model {name}; the models are {known}"
                    )));
                }
            };
            for name in names {
                let pictures = Pictures::open(&source.location)
                    .map_err(|problem| Error::Usage(format!("{option}: {problem}")))?;
                if all.sources.insert(name.to_owned(), pictures).is_some() {
                    return Err(Error::Usage(format!(
                        "{option}: the model {name} has two sources of pictures"
                    )));
                }
            }
        }
        Ok(all)
    }

    pub(crate) fn of(&self, model: &str) -> Option<&Pictures> {
        self.sources.get(model)
    }

    /// The address of the picture of a row for the page: relative to the page, or on another server. `None` if there is no picture.
    pub(crate) fn address(&self, model: &str, row: u32) -> Option<String> {
        match self.of(model)? {
            Pictures::Template { before, after, .. } => Some(format!("{before}{row}{after}")),
            pictures => pictures.exists(row).then(|| format!("v1/models/{model}/pictures/{row}")),
        }
    }

    /// Other servers from which the page loads pictures.
    pub(crate) fn origins(&self) -> impl Iterator<Item = &str> {
        self.sources.values().filter_map(|pictures| match pictures {
            Pictures::Template { origin, .. } => Some(origin.as_str()),
            _ => None,
        })
    }
}

/// The pictures of a model.
#[derive(Debug)]
pub(crate) enum Pictures {
    /// The path of a folder, with symbolic links resolved.
    Folder(PathBuf),
    /// The address of a picture is `before`, the number of the row, and `after`. Its scheme and host are `origin`.
    Template {
        before: String,
        after: String,
        origin: String,
    },
    Images(Images),
}

impl Pictures {
    fn open(location: &str) -> Result<Self, String> {
        if location.starts_with("http://") || location.starts_with("https://") {
            return Self::template(location);
        }
        let path = Path::new(location);
        if path.is_dir() {
            return path.canonicalize().map(Self::Folder).map_err(|error| error.to_string());
        }
        let spec: ArraySpec = location.parse().expect("every text is a valid reference to an array");
        if !spec.path.exists() {
            return Err(
                "it is neither a folder, nor a file of images, nor an address with http:// or https://"
                    .to_owned(),
            );
        }
        nuq_io::read_images(&spec).map(Self::Images).map_err(|error| error.to_string())
    }

    fn template(address: &str) -> Result<Self, String> {
        let example = "such as https://example.org/{row}.png";
        let (before, after) =
            address.split_once(ROW).ok_or_else(|| format!("the address must contain {ROW}, {example}"))?;
        let start = address.find("://").expect("the address has a scheme") + 3;
        let end = address[start..].find('/').map_or(address.len(), |at| start + at);
        // The origin becomes a part of the content security policy, so it may only have the characters of a host and a port.
        let is_host = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
        let host = &address[start..end];
        if host.is_empty() || !host.chars().all(is_host) || after.contains(ROW) {
            return Err(format!("use one {ROW} after a host name, {example}"));
        }
        if !address.chars().all(|c| c.is_ascii_graphic()) {
            return Err(
                "an address has no spaces and only ASCII characters: encode others, such as a space as %20"
                    .to_owned(),
            );
        }
        Ok(Self::Template {
            before: before.to_owned(),
            after: after.to_owned(),
            origin: address[..end].to_owned(),
        })
    }

    fn exists(&self, row: u32) -> bool {
        match self {
            Self::Folder(folder) => find(folder, row).is_some(),
            Self::Template { .. } => true,
            Self::Images(images) => images.get(row as usize).is_some(),
        }
    }

    /// The content type and the bytes of a picture.
    pub(crate) fn read(&self, row: u32) -> Result<(&'static str, Vec<u8>), ApiError> {
        let missing = || no_picture(row);
        match self {
            Self::Folder(folder) => {
                let (path, content_type) = find(folder, row).ok_or_else(missing)?;
                let mut bytes = Vec::new();
                let file = File::open(path).map_err(|_| missing())?;
                file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|_| missing())?;
                if bytes.len() as u64 > MAX_BYTES {
                    let message =
                        format!("the picture of training row {row} is larger than {} MiB", MAX_BYTES >> 20);
                    return Err(ApiError::new(StatusCode::NOT_FOUND, "picture_too_large", message));
                }
                Ok((content_type, bytes))
            }
            Self::Template { .. } => Err(missing()),
            Self::Images(images) => {
                let bytes = images.get(row as usize).ok_or_else(missing)?;
                Ok(("image/png", png(images, bytes)))
            }
        }
    }
}

/// The error of a row without a picture.
pub(crate) fn no_picture(row: u32) -> ApiError {
    ApiError::not_found(format!("there is no picture of training row {row}"))
}

/// The picture file of a row and its content type. Links that lead out of the folder are ignored.
fn find(folder: &Path, row: u32) -> Option<(PathBuf, &'static str)> {
    TYPES.iter().find_map(|(extension, content_type)| {
        let path = folder.join(format!("{row}.{extension}")).canonicalize().ok()?;
        (path.starts_with(folder) && path.is_file()).then_some((path, *content_type))
    })
}

fn png(images: &Images, bytes: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, images.width as u32, images.height as u32);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_color(match images.channels {
        1 => png::ColorType::Grayscale,
        3 => png::ColorType::Rgb,
        _ => png::ColorType::Rgba,
    });
    let mut writer = encoder.write_header().expect("sizes of images are valid");
    writer.write_image_data(bytes).expect("an image has the size of its header");
    writer.finish().expect("images are written to memory");
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(location: &str) -> Result<AllPictures, Error> {
        AllPictures::open(&[PictureSource { model: None, location: location.to_owned() }], &["m"])
    }

    #[test]
    fn files_of_the_folder_are_read_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("pictures");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(inner.join("7.jpeg"), b"seven").unwrap();
        std::fs::write(inner.join("8.svg"), b"<svg onload='alert(1)'/>").unwrap();
        std::fs::create_dir(inner.join("9.png")).unwrap();
        std::fs::write(folder.path().join("secret.png"), b"secret").unwrap();
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(folder.path().join("secret.png"), inner.join("10.png")).unwrap();
            std::os::unix::fs::symlink(inner.join("7.jpeg"), inner.join("11.jpg")).unwrap();
        }
        let pictures = all(inner.to_str().unwrap()).unwrap();
        assert_eq!(pictures.of("m").unwrap().read(7).unwrap(), ("image/jpeg", b"seven".to_vec()));
        assert_eq!(pictures.address("m", 7).as_deref(), Some("v1/models/m/pictures/7"));
        for row in [8, 9, 10, 12] {
            assert_eq!(
                pictures.of("m").unwrap().read(row).unwrap_err().status,
                StatusCode::NOT_FOUND,
                "row {row}"
            );
            assert_eq!(pictures.address("m", row), None, "row {row}");
        }
        // A link to a file inside the folder is followed.
        #[cfg(unix)]
        assert_eq!(pictures.of("m").unwrap().read(11).unwrap().1, b"seven");
    }

    #[test]
    fn images_of_an_array_are_encoded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("images.npy");
        let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1, 2, 3), }\n";
        let start =
            [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes()].concat();
        std::fs::write(&path, [start, (0..12).collect()].concat()).unwrap();
        let pictures = all(path.to_str().unwrap()).unwrap();
        let (content_type, file) = pictures.of("m").unwrap().read(1).unwrap();
        assert_eq!(content_type, "image/png");
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut pixels = [0; 6];
        reader.next_frame(&mut pixels).unwrap();
        assert_eq!(pixels, [6, 7, 8, 9, 10, 11]);
        assert!(pictures.of("m").unwrap().read(2).is_err());
        assert_eq!(pictures.address("m", 2), None);
    }

    #[test]
    fn addresses_contain_the_row_and_invalid_sources_are_errors() {
        let pictures = all("https://example.org:81/a/{row}.png?x=1").unwrap();
        assert_eq!(pictures.address("m", 3).as_deref(), Some("https://example.org:81/a/3.png?x=1"));
        assert_eq!(pictures.origins().collect::<Vec<_>>(), ["https://example.org:81"]);
        assert!(pictures.of("m").unwrap().read(3).is_err());
        for bad in [
            "https://example.org/a.png",
            "https://{row}.example.org/",
            "https:///{row}",
            "https://example.org;script-src *;/{row}",
            "https://example.org/{row}/{row}",
            "no/such/folder",
        ] {
            assert!(all(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_source_of_an_unknown_model_is_an_error() {
        let source = PictureSource::parse("other=https://example.org/{row}");
        let error = AllPictures::open(&[source], &["m"]).unwrap_err().to_string();
        assert!(error.contains("no model other"), "{error}");
    }
}
