//! Model files without training rows: equality with the model that has them, and errors of everything that needs rows.

use std::fs;

use nuq::nuq_neighbors::Error as IndexError;
use nuq::parts::FittedDensityParts;
use nuq::{
    Covariance, Density, DensityBandwidth, Embeddings, FittedModel, Kernel, Model, NuqClassifier,
    NuqRegressor, Shrinkage,
};
use nuq_io::{Error, open, open_manifest, save, save_without_rows};
use nuq_testkit::data;

/// The bits of the predictions by `model` from the neighbors that `searched` finds. `searched` has rows; in practice, a vector database
/// would find these neighbors.
fn bits_from(model: &Model<'_>, searched: &Model<'_>, queries: &Embeddings<'_>) -> Vec<u64> {
    let neighbors = searched.neighbors_of(queries, searched.n_neighbors()).unwrap();
    match model {
        Model::Classifier(model) => {
            let predictions = model.predict_from(queries, &neighbors).unwrap();
            let numbers = predictions.iter().flat_map(|p| [p.log_total, p.log_density, p.probability]);
            numbers.map(f64::to_bits).collect()
        }
        Model::Regressor(model) => {
            let predictions = model.predict_from(queries, &neighbors).unwrap();
            predictions.iter().flat_map(|p| [p.mean, p.log_total, p.log_density]).map(f64::to_bits).collect()
        }
    }
}

/// Models of all densities, with sample weights, removed rows, normalized rows and fewer rows than columns.
fn models() -> Vec<Model<'static>> {
    let (x, y) = data::clusters(400, 12, 3, 0.8, 3);
    let (few, classes_of_few) = data::clusters(12, 20, 3, 1.0, 2);
    let weights: Vec<f64> = (0..400).map(|i| if i % 2 == 0 { 0.5 } else { 2.0 }).collect();
    let targets: Vec<f64> = y.iter().map(|&class| class as f64 - 0.5).collect();
    let gmm = |covariance| Density::Gmm { covariance, shrinkage: Shrinkage::LedoitWolf, scale_free: true };
    let plain = NuqClassifier::params().selection_rows(100);
    let mut models: Vec<Model<'_>> = vec![];
    for density in [
        Density::Auto,
        Density::Kde { bandwidth: DensityBandwidth::Same },
        gmm(Covariance::Full),
        gmm(Covariance::Tied),
        gmm(Covariance::Diagonal),
    ] {
        models.push(plain.clone().density(density.clone()).fit(&x, &y).unwrap().into());
        models.push(plain.clone().density(density).fit_weighted(&x, &y, &weights).unwrap().into());
    }
    for covariance in [Covariance::Full, Covariance::Tied] {
        let params = plain.clone().n_neighbors(4).density(gmm(covariance));
        let few_weights: Vec<f64> = (1..=12).map(f64::from).collect();
        models.push(params.clone().fit(&few, &classes_of_few).unwrap().into());
        models.push(params.fit_weighted(&few, &classes_of_few, &few_weights).unwrap().into());
    }
    models.push(plain.clone().normalize(true).kernel(Kernel::Student).fit(&x, &y).unwrap().into());
    let scaled = plain.bandwidth(nuq::bandwidth::BandwidthRule::Scott);
    let mut removed = scaled.fit(&x, &y).unwrap();
    removed.remove(&[0, 7, 399]).unwrap();
    models.push(removed.into());
    models.push(NuqRegressor::params().selection_rows(100).fit(&x, &targets).unwrap().into());
    models
}

#[test]
fn predictions_equal_those_of_the_model_with_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (path, again) = (folder.path().join("model.nuq"), folder.path().join("again.nuq"));
    let mut kinds = 0;
    for model in models() {
        let (queries, _) = data::clusters(50, model.index().dim(), 3, 0.8, 4);
        save_without_rows(&model, &path).unwrap();
        let opened = open(&path).unwrap();
        opened.verify().unwrap();
        assert_eq!(bits_from(&opened.model, &model, &queries), bits_from(&model, &model, &queries));
        assert!(opened.sections.iter().all(|section| !section.name.starts_with("index.rows.f")));
        // Saved again, the model gives the same file, without rows.
        save(&opened.model, &again).unwrap();
        assert_eq!(fs::read(&again).unwrap(), fs::read(&path).unwrap());
        kinds |= match model.smoother_parts().density {
            FittedDensityParts::Same => 1,
            FittedDensityParts::Kde(_) => 2,
            FittedDensityParts::Auto(_) => 4,
            FittedDensityParts::Gmm(_) => 8,
        };
    }
    assert_eq!(kinds, 15, "a kind of density is not tested");
}

#[test]
fn everything_that_needs_rows_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.nuq");
    let (x, y) = data::clusters(300, 12, 3, 0.8, 3);
    let gmm =
        Density::Gmm { covariance: Covariance::Tied, shrinkage: Shrinkage::LedoitWolf, scale_free: false };
    let with_rows = NuqClassifier::params().density(gmm).fit(&x, &y).unwrap().into();
    save_without_rows(&with_rows, &path).unwrap();
    let opened = open(&path).unwrap();
    assert!(matches!(opened.require_rows(), Err(Error::Model { path: named, .. }) if named == path));
    let Model::Classifier(mut model) = opened.model else { unreachable!() };
    let absent = nuq::Error::Neighbors(IndexError::RowsNotStored);
    assert_eq!(model.predict(&x).err(), Some(absent.clone()));
    assert_eq!(model.predict_proba(&x).err(), Some(absent.clone()));
    assert_eq!(model.neighbors_of(&x, 1).err(), Some(absent.clone()));
    assert_eq!(model.measure(&x, 1, &(0..300).collect::<Vec<u32>>()).err(), Some(absent.clone()));
    assert_eq!(model.leave_one_out().err(), Some(absent.clone()));
    assert_eq!(model.label_issues().err(), Some(absent.clone()));
    assert_eq!(model.insert(&x, &y).err(), Some(absent.clone()));
    assert_eq!(model.remove(&[1]).err(), Some(absent.clone()));
    // The Gaussians would have to be fitted to the rows again.
    assert_eq!(model.relabel(&[1], &[2]).err(), Some(absent));
    // Ids from the database are checked although there are no rows.
    let unknown = nuq::Neighbors::new(1, vec![300], vec![0.5]).unwrap();
    assert!(model.predict_from(&x.gather(&[0]), &unknown).is_err());
}

/// The logistic kernel is computed from the coordinates of the neighbors, not from their distances.
#[test]
fn a_model_whose_kernel_needs_coordinates_cannot_be_saved_without_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.nuq");
    let (x, y) = data::clusters(60, 4, 2, 0.8, 3);
    let model: Model<'_> = NuqClassifier::params().kernel(Kernel::Logistic).fit(&x, &y).unwrap().into();
    let error = save_without_rows(&model, &path).unwrap_err();
    let Error::Model { source: nuq::Error::KernelNeedsRows { kernel }, .. } = error else {
        panic!("{error}")
    };
    assert_eq!((kernel, path.exists()), (Kernel::Logistic, false));
}

#[test]
fn damage_is_found_when_the_file_is_opened_or_verified() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.nuq");
    save_without_rows(&models()[2], &path).unwrap();
    let bytes = fs::read(&path).unwrap();
    for at in (0..bytes.len()).step_by(bytes.len() / 200) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        fs::write(&path, damaged).unwrap();
        let result = open(&path).and_then(|file| file.verify());
        assert!(result.is_err(), "the damaged byte {at} is not found");
    }
}

#[test]
fn a_manifest_opens_without_its_shards() {
    let folder = tempfile::tempdir().unwrap();
    let (x, y) = data::clusters(300, 12, 3, 0.8, 3);
    let mut writer = nuq_io::ShardWriter::new(folder.path(), true).unwrap();
    for block in 0..3u32 {
        writer.write(&x.gather(&(100 * block..100 * (block + 1)).collect::<Vec<u32>>())).unwrap();
    }
    let params = NuqClassifier::params().normalize(true);
    let model: Model<'_> = params.fit_shards(&writer.open().unwrap(), &y, None).unwrap().into();
    let (queries, _) = data::clusters(50, 12, 3, 0.8, 4);
    let expected = bits_from(&model, &model, &queries);
    writer.save(&model).unwrap();
    // An opened manifest has the Gaussians of the fit.
    assert_eq!(bits_from(&open(folder.path()).unwrap().model, &model, &queries), expected);
    for shard in fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()) {
        if shard.file_name().unwrap() != "manifest.nuq" {
            fs::remove_file(&shard).unwrap();
        }
    }
    let manifest = open_manifest(folder.path()).unwrap();
    assert_eq!(manifest.shards.iter().map(|shard| shard.rows).collect::<Vec<_>>(), [100, 100, 100]);
    assert_eq!(manifest.scale, None);
    assert_eq!(bits_from(&manifest.model, &model, &queries), expected);
}
