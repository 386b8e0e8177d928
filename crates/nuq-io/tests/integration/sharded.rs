//! Sharded models: equality with the model of one file, and damaged folders.

use std::fs;
use std::path::{Path, PathBuf};

use nuq::bandwidth::BandwidthRule;
use nuq::calibrate::{Measure, Target, calibrate};
use nuq::nuq_neighbors::{Error as IndexError, RowStorage};
use nuq::{
    Classification, Covariance, Density, DensityBandwidth, Embeddings, FittedModel, IndexKind, Kernel, Model,
    NuqClassifier, NuqRegressor, Params, Shrinkage,
};
use nuq_io::{Error, ModelLock, ShardFile, ShardWriter, open, open_shards, save, write_model, write_shard};
use nuq_testkit::data;

use crate::model_file::prediction_bits;

/// Writes shards of these sizes in the given order of their numbers, and returns them in the order of their rows.
fn write_shards(
    folder: &Path,
    x: &Embeddings<'_>,
    sizes: &[usize],
    normalize: bool,
    order: impl Iterator<Item = usize>,
) -> Vec<ShardFile> {
    let mut files: Vec<Option<ShardFile>> = vec![None; sizes.len()];
    for number in order {
        let first = sizes[..number].iter().sum::<usize>();
        let values = x.as_slice()[first * x.dim()..(first + sizes[number]) * x.dim()].to_vec();
        let rows = Embeddings::new(values, x.dim()).unwrap();
        files[number] = Some(write_shard(folder, number as u32, &rows, normalize).unwrap());
    }
    files.into_iter().map(Option::unwrap).collect()
}

/// The bytes of the model as one file.
fn file_bytes(model: &Model<'_>) -> Vec<u8> {
    let mut bytes = vec![];
    write_model(model, &mut bytes).unwrap();
    bytes
}

/// The files of a folder with their contents, by name.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().into(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

/// Rows in clusters. Every eighth row is a duplicate of one of the first rows, which are in the first shards.
fn rows_with_duplicates() -> (Embeddings<'static>, Vec<i64>) {
    let (x, y) = data::clusters(420, 6, 3, 1.0, 3);
    let ids: Vec<u32> = (0..420).map(|i| if i % 8 == 0 { i / 60 } else { i }).collect();
    (x.gather(&ids), y)
}

/// The numbers of rows in the shards of four models. Some shards have no rows, or fewer rows than there are neighbors.
const SIZES: [&[usize]; 4] = [&[420], &[140, 140, 140], &[60, 60, 60, 60, 60, 60, 60], &[3, 0, 400, 1, 16]];

#[test]
fn a_sharded_classifier_equals_the_model_of_one_file() {
    let (x, y) = rows_with_duplicates();
    let queries = data::clusters(40, 6, 3, 1.0, 9).0;
    let weights: Vec<f64> = (0..420).map(|i| 0.5 + f64::from(i % 3)).collect();
    let gmm =
        |covariance, scale_free| Density::Gmm { covariance, shrinkage: Shrinkage::LedoitWolf, scale_free };
    let plain = NuqClassifier::params().selection_rows(150).n_neighbors(12);
    let same = Density::Kde { bandwidth: DensityBandwidth::Same };
    let variants: Vec<(Params<Classification>, Option<&[f64]>)> = vec![
        (plain.clone(), None),
        (plain.clone().index(IndexKind::Exact), Some(&weights)),
        (plain.clone().normalize(true).kernel(Kernel::Logistic), None),
        (plain.clone().density(gmm(Covariance::Full, false)), Some(&weights)),
        (plain.clone().density(gmm(Covariance::Tied, true)), None),
        (plain.clone().density(gmm(Covariance::Diagonal, false)), None),
        (plain.clone().bandwidth(BandwidthRule::Silverman).density(same), None),
        (plain.clone().bandwidth(BandwidthRule::Adaptive { k: None }), None),
        (NuqClassifier::paper().selection_rows(150), None),
    ];
    for (variant, (params, weights)) in variants.into_iter().enumerate() {
        let whole = match weights {
            Some(weights) => params.fit_weighted(&x, &y, weights).unwrap(),
            None => params.fit(&x, &y).unwrap(),
        };
        let whole = Model::Classifier(whole);
        let (bytes, predictions) = (file_bytes(&whole), prediction_bits(&whole, &queries).unwrap());
        for sizes in SIZES {
            let folder = tempfile::tempdir().unwrap();
            let files = write_shards(folder.path(), &x, sizes, whole.is_normalized(), 0..sizes.len());
            let shards = open_shards(folder.path(), &files).unwrap();
            let fitted = Model::Classifier(params.fit_shards(&shards, &y, weights).unwrap());
            assert!(file_bytes(&fitted) == bytes, "variant {variant}, shards {sizes:?}");
            save(&fitted, folder.path()).unwrap();
            let opened = open(folder.path()).unwrap();
            opened.verify().unwrap();
            assert!(file_bytes(&opened.model) == bytes, "variant {variant}, opened shards {sizes:?}");
            assert!(prediction_bits(&opened.model, &queries).unwrap() == predictions, "{variant}, {sizes:?}");
            let (Model::Classifier(opened), Model::Classifier(whole)) = (&opened.model, &whole) else {
                unreachable!("both are classifiers")
            };
            assert_eq!(opened.label_issues().unwrap(), whole.label_issues().unwrap());
        }
    }
}

#[test]
fn a_sharded_regressor_equals_the_model_of_one_file() {
    let (x, y) = rows_with_duplicates();
    let targets: Vec<f64> = y.iter().zip(x.rows()).map(|(&y, row)| y as f64 + f64::from(row[0])).collect();
    let params = NuqRegressor::params().selection_rows(150);
    for params in [params.clone(), params.density(Density::Auto)] {
        let bytes = file_bytes(&Model::Regressor(params.fit(&x, &targets).unwrap()));
        for sizes in SIZES {
            let folder = tempfile::tempdir().unwrap();
            let files = write_shards(folder.path(), &x, sizes, false, 0..sizes.len());
            let shards = open_shards(folder.path(), &files).unwrap();
            let fitted = Model::Regressor(params.fit_shards(&shards, &targets, None).unwrap());
            save(&fitted, folder.path()).unwrap();
            assert!(file_bytes(&open(folder.path()).unwrap().model) == bytes, "{sizes:?}");
        }
    }
}

/// A folder with a sharded model of three shards.
fn sharded_model() -> (tempfile::TempDir, Vec<ShardFile>) {
    let (x, y) = rows_with_duplicates();
    let folder = tempfile::tempdir().unwrap();
    let files = write_shards(folder.path(), &x, SIZES[1], false, 0..3);
    let shards = open_shards(folder.path(), &files).unwrap();
    let model = NuqClassifier::params().selection_rows(100).fit_shards(&shards, &y, None).unwrap();
    save(&Model::Classifier(model), folder.path()).unwrap();
    (folder, files)
}

/// Without this error, the lost bytes would be zeros, and the predictions wrong.
#[cfg(unix)]
#[test]
fn predictions_from_a_file_that_was_changed_in_place_are_errors() {
    let (folder, files) = sharded_model();
    let (x, _) = rows_with_duplicates();
    let one_file = folder.path().join("one.nuq");
    save(&open(folder.path()).unwrap().model, &one_file).unwrap();
    for (model, changed) in
        [(folder.path(), folder.path().join(&files[1].name)), (&one_file, one_file.clone())]
    {
        let opened = open(model).unwrap();
        let Model::Classifier(classifier) = &opened.model else { panic!("it is a classifier") };
        classifier.predict(&x).unwrap();
        let contents = fs::read(&changed).unwrap();
        // A file of the same name that is renamed is another file.
        let copy = folder.path().join("copy");
        fs::write(&copy, &contents).unwrap();
        fs::rename(&copy, &changed).unwrap();
        classifier.predict(&x).unwrap();
        let opened = open(model).unwrap();
        let Model::Classifier(classifier) = &opened.model else { panic!("it is a classifier") };
        classifier.predict(&x).unwrap();
        fs::OpenOptions::new()
            .write(true)
            .open(&changed)
            .unwrap()
            .set_len(contents.len() as u64 - 1)
            .unwrap();
        for result in [classifier.predict(&x).map(drop), classifier.leave_one_out().map(drop)] {
            let error = result.unwrap_err();
            let nuq::Error::Neighbors(IndexError::FileChanged { problem }) = &error else {
                panic!("{error}")
            };
            assert!(problem.starts_with(&format!("{} was changed", changed.display())), "{problem}");
        }
        fs::write(&changed, contents).unwrap();
    }
}

#[test]
fn the_folder_does_not_depend_on_the_order_in_which_shards_are_written() {
    let (expected, _) = sharded_model();
    let (x, y) = rows_with_duplicates();
    let folder = tempfile::tempdir().unwrap();
    // A shard that is written twice is one file.
    let files = write_shards(folder.path(), &x, SIZES[1], false, [2, 0, 2, 1].into_iter());
    let shards = open_shards(folder.path(), &files).unwrap();
    let model = NuqClassifier::params().selection_rows(100).fit_shards(&shards, &y, None).unwrap();
    save(&Model::Classifier(model), folder.path()).unwrap();
    assert!(contents(folder.path()) == contents(expected.path()));
}

#[test]
fn damaged_folders_are_errors() {
    let queries = data::normal(3, 6, 1);
    let error_of = |change: &dyn Fn(&Path, &[ShardFile])| -> String {
        let (folder, files) = sharded_model();
        change(folder.path(), &files);
        let opened = match open(folder.path()) {
            Err(error) => return error.to_string(),
            Ok(opened) => opened,
        };
        let verified = opened.verify().unwrap_err().to_string();
        assert!(verified.contains("index.rows.f32"), "{verified}");
        prediction_bits(&opened.model, &queries).unwrap_err().to_string()
    };
    let missing = error_of(&|folder, files| fs::remove_file(folder.join(&files[1].name)).unwrap());
    assert!(missing.contains("rows-00001-") && missing.contains("the file is missing"), "{missing}");
    let swapped = error_of(&|folder, files| {
        let [a, b] = [0, 2].map(|i: usize| folder.join(&files[i].name));
        fs::rename(&a, folder.join("x")).unwrap();
        fs::rename(&b, &a).unwrap();
        fs::rename(folder.join("x"), &b).unwrap();
    });
    assert!(swapped.contains("it holds other rows than its name states"), "{swapped}");
    let truncated = error_of(&|folder, files| {
        let path = folder.join(&files[2].name);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    });
    assert!(truncated.contains("rows-00002-") && truncated.contains("truncated"), "{truncated}");
    let changed = error_of(&|folder, files| {
        let path = folder.join(&files[2].name);
        let mut bytes = fs::read(&path).unwrap();
        let last = bytes.len() - 100;
        bytes[last] ^= 1;
        fs::write(&path, &bytes).unwrap();
    });
    assert!(changed.contains("index.rows.f32") && changed.contains("rows-00002-"), "{changed}");
    let other = error_of(&|folder, _| {
        let (x, y) = data::clusters(60, 6, 2, 1.0, 7);
        let other = tempfile::tempdir().unwrap();
        let files = write_shards(other.path(), &x, &[30, 30], false, 0..2);
        let shards = open_shards(other.path(), &files).unwrap();
        save(
            &Model::Classifier(NuqClassifier::params().fit_shards(&shards, &y, None).unwrap()),
            other.path(),
        )
        .unwrap();
        fs::copy(other.path().join("manifest.nuq"), folder.join("manifest.nuq")).unwrap();
    });
    assert!(other.contains("rows-00000-") && other.contains("the file is missing"), "{other}");
    let unfinished = error_of(&|folder, _| fs::remove_file(folder.join("manifest.nuq")).unwrap());
    assert!(unfinished.contains("it is a folder without manifest.nuq"), "{unfinished}");
}

#[test]
fn a_folder_holds_the_previous_model_until_the_new_manifest_is_written() {
    let (folder, former) = sharded_model();
    let former_bytes = file_bytes(&open(folder.path()).unwrap().model);
    let (x, y) = data::clusters(60, 6, 2, 1.0, 7);
    let files = write_shards(folder.path(), &x, &[30, 30], false, 0..2);
    assert!(file_bytes(&open(folder.path()).unwrap().model) == former_bytes);
    let shards = open_shards(folder.path(), &files).unwrap();
    let model = Model::Classifier(NuqClassifier::params().fit_shards(&shards, &y, None).unwrap());
    save(&model, folder.path()).unwrap();
    assert!(file_bytes(&open(folder.path()).unwrap().model) == file_bytes(&model));
    let names: Vec<PathBuf> = contents(folder.path()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 3, "the former shards are removed: {names:?}");
    assert!(former.iter().all(|file| !names.contains(&PathBuf::from(&file.name))));
}

#[test]
fn a_threshold_is_stored_in_the_manifest() {
    let (folder, _) = sharded_model();
    let before = contents(folder.path());
    let lock = ModelLock::acquire(folder.path(), || {}).unwrap();
    let mut opened = open(folder.path()).unwrap();
    let threshold = calibrate(Measure::Epistemic, &[1.0, 2.0, 3.0], None, Target::Coverage(0.5)).unwrap();
    opened.model.set_threshold("main", threshold);
    lock.save(&opened.model).unwrap();
    assert_eq!(open(folder.path()).unwrap().model.thresholds().len(), 1);
    let after = contents(folder.path());
    assert!(before[0].1 != after[0].1 && before[1..] == after[1..], "only the manifest changes");
}

#[test]
fn unsupported_operations_of_a_sharded_model_are_errors() {
    let (folder, files) = sharded_model();
    let (x, y) = rows_with_duplicates();
    let mut opened = open(folder.path()).unwrap().model;
    let before = file_bytes(&opened);
    let Model::Classifier(model) = &mut opened else { unreachable!("a classifier") };
    let fixed = Err(nuq::Error::from(IndexError::FixedShards));
    assert_eq!(model.insert(&x, &y).map(drop), fixed);
    assert_eq!(model.remove(&[1]), fixed);
    assert!(file_bytes(&opened) == before, "the model is unchanged");
    // The same model in one file can be changed.
    let file = folder.path().join("one.nuq");
    save(&opened, &file).unwrap();
    let Model::Classifier(mut model) = open(&file).unwrap().model else { unreachable!("a classifier") };
    model.remove(&[1]).unwrap();
    let shards = open_shards(folder.path(), &files).unwrap();
    let params = NuqClassifier::params().selection_rows(100);
    // Rows of weight 0 would have to be removed.
    let weights: Vec<f64> = (0..420).map(|i| f64::from(i % 2)).collect();
    assert_eq!(params.fit_shards(&shards, &y, Some(&weights)).map(drop), fixed);
    assert!(matches!(
        params.clone().normalize(true).fit_shards(&shards, &y, None),
        Err(nuq::Error::ShardNormalization { normalize: true })
    ));
    assert!(matches!(
        params.index(IndexKind::ALL[2]).fit_shards(&shards, &y, None),
        Err(nuq::Error::Neighbors(IndexError::GraphOverShards))
    ));
    let elsewhere = tempfile::tempdir().unwrap();
    assert!(matches!(save(&opened, elsewhere.path()), Err(Error::Damaged { .. })));
    let whole = Model::Classifier(NuqClassifier::params().fit(&x, &y).unwrap());
    assert!(save(&whole, elsewhere.path()).unwrap_err().to_string().contains("it is a folder"));
    assert_eq!(contents(elsewhere.path()).len(), 0, "nothing is written");
    assert!(matches!(open_shards(elsewhere.path(), &[]), Err(Error::Model { .. })));
    let outside = ShardFile { name: "../x.nuq".to_owned(), rows: 1 };
    assert!(
        open_shards(elsewhere.path(), &[outside])
            .err()
            .unwrap()
            .to_string()
            .contains("not the name of a file of rows")
    );
    assert_eq!(shards.id_bound(), 420);
}

/// If it cannot be determined whether a shard already exists, the shard may belong to the model in the folder. It must not be removed
/// after an error.
#[cfg(unix)]
#[test]
fn a_shard_that_cannot_be_examined_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let rows = Embeddings::from_rows(&[[0.0], [0.1]]).unwrap();
    let file = write_shard(folder.path(), 0, &rows, false).unwrap();
    let path = folder.path().join(&file.name);
    fs::remove_file(&path).unwrap();
    // A link to itself stands for a file whose metadata cannot be read.
    std::os::unix::fs::symlink(&path, &path).unwrap();
    let mut writer = ShardWriter::new(folder.path(), false).unwrap();
    let error = writer.write(&rows).unwrap_err().to_string();
    assert!(error.contains(&file.name), "{error}");
    drop(writer);
    assert!(path.is_symlink(), "the entry of the folder is still there");
}
