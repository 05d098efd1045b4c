"""Canonical correlation analysis, the linear baseline of cross-modal retrieval (Salvador et al. 2017, section 5)."""

import numpy as np

from data.errors import InputError


class CCA:
    """Regularised CCA in closed form between image vectors and bags of words.

    Bags of words (TF-IDF) are first reduced by a truncated SVD. Both sides are centred, whitened with a ridge, and
    projected on the directions of largest correlation, each weighted by its correlation.

    Args:
        components: dimensions of the joint space (fewer where the data have fewer).
        words: dimensions that the bags of words are reduced to.
        ridge: added to each side's covariance, as a share of its mean eigenvalue.
        seed: of the randomised SVD.
    """

    def __init__(self, components: int = 128, words: int = 300, ridge: float = 0.3, seed: int = 1234) -> None:
        self.components, self.words, self.ridge, self.seed = components, words, ridge, seed

    def fit(self, image: np.ndarray, counts: np.ndarray) -> "CCA":
        """Fit on N pairs: image (N, D) float32, counts (N, V) sparse word counts. InputError below 3 pairs."""
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfTransformer

        n = image.shape[0]
        if n < 3:
            raise InputError(f"CCA: {n} training pairs; it needs at least 3")
        self._tfidf = TfidfTransformer(sublinear_tf=True).fit(counts)
        size = max(1, min(self.words, counts.shape[1] - 1, n - 1))
        self._svd = TruncatedSVD(size, random_state=self.seed).fit(self._tfidf.transform(counts))
        x, y = np.asarray(image, np.float64), self._svd.transform(self._tfidf.transform(counts))
        self._means = x.mean(0), y.mean(0)
        x, y = x - self._means[0], y - self._means[1]
        wx, wy = _whitening(x, self.ridge), _whitening(y, self.ridge)
        u, correlation, v = np.linalg.svd(wx.T @ (x.T @ y / n) @ wy, full_matrices=False)
        k = min(self.components, len(correlation))
        self._maps = wx @ u[:, :k] * correlation[:k], wy @ v[:k].T * correlation[:k]
        return self

    def image(self, image: np.ndarray) -> np.ndarray:
        """(N, components) float32 of unit length."""
        return _unit((np.asarray(image, np.float64) - self._means[0]) @ self._maps[0])

    def recipe(self, counts: np.ndarray) -> np.ndarray:
        """(N, components) float32 of unit length."""
        return _unit((self._svd.transform(self._tfidf.transform(counts)) - self._means[1]) @ self._maps[1])


def _whitening(x: np.ndarray, ridge: float) -> np.ndarray:
    """W with W' (C + ridge mean(C)) W = 1, of centred x (N, D)."""
    covariance = x.T @ x / len(x)
    values, vectors = np.linalg.eigh(covariance)
    return vectors / np.sqrt(np.maximum(values, 0) + ridge * values.mean() + 1e-12)


def _unit(x: np.ndarray) -> np.ndarray:
    return (x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)).astype(np.float32)
