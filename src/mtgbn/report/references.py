"""The publications that paragraphs of methods cite, as text and as BibTeX."""

from typing import NamedTuple


class Reference(NamedTuple):
    """A publication; authors are separated by ``and`` and have the family name first, as in BibTeX."""

    authors: str
    year: int
    title: str
    journal: str
    volume: str = ""
    pages: str = ""
    doi: str = ""

    @property
    def text(self) -> str:
        """The reference in one line."""
        people = []
        for author in self.authors.split(" and "):
            family, _, given = author.partition(", ")
            initials = "".join(name[0] for name in given.replace("-", " ").split())
            people.append(f"{family} {initials}".strip())
        place = f"{self.journal} {self.volume}".strip() + (f": {self.pages}" if self.pages else "")
        link = f" doi:{self.doi}" if self.doi else ""
        return f"{', '.join(people)} ({self.year}). {self.title}. {place}.{link}"

    def bibtex(self, key: str) -> str:
        """The reference as an entry of a BibTeX file."""
        fields = {
            "author": self.authors,
            "title": f"{{{self.title}}}",
            "journal": self.journal,
            "volume": self.volume,
            "pages": self.pages.replace("–", "--"),
            "year": str(self.year),
            "doi": self.doi,
        }
        lines = [f"  {name} = {{{value}}}" for name, value in fields.items() if value]
        return f"@article{{{key},\n" + ",\n".join(lines) + "\n}"


REFERENCES = {
    "bartlett1946": Reference(
        authors="Bartlett, M. S.",
        year=1946,
        title="On the theoretical specification and sampling properties of autocorrelated time-series",
        journal="Supplement to the Journal of the Royal Statistical Society",
        volume="8",
        pages="27–41",
        doi="10.2307/2983611",
    ),
    "benjamini1995": Reference(
        authors="Benjamini, Yoav and Hochberg, Yosef",
        year=1995,
        title="Controlling the false discovery rate: a practical and powerful approach to multiple "
        "testing",
        journal="Journal of the Royal Statistical Society: Series B",
        volume="57",
        pages="289–300",
        doi="10.1111/j.2517-6161.1995.tb02031.x",
    ),
    "freedman1983": Reference(
        authors="Freedman, David and Lane, David",
        year=1983,
        title="A nonstochastic interpretation of reported significance levels",
        journal="Journal of Business & Economic Statistics",
        volume="1",
        pages="292–298",
        doi="10.1080/07350015.1983.10509354",
    ),
    "johansen1980": Reference(
        authors="Johansen, Søren",
        year=1980,
        title="The Welch-James approximation to the distribution of the residual sum of squares in a "
        "weighted linear regression",
        journal="Biometrika",
        volume="67",
        pages="85–92",
        doi="10.1093/biomet/67.1.85",
    ),
    "liu2022": Reference(
        authors="Liu, Shuai and Qiu, Yixuan and Li, Baojuan and Wang, Huaning and Chang, Xiangyu",
        year=2022,
        title="Learning multitask Gaussian Bayesian networks",
        journal="arXiv",
        volume="2205.05343",
    ),
    "shrout1979": Reference(
        authors="Shrout, Patrick E. and Fleiss, Joseph L.",
        year=1979,
        title="Intraclass correlations: uses in assessing rater reliability",
        journal="Psychological Bulletin",
        volume="86",
        pages="420–428",
        doi="10.1037/0033-2909.86.2.420",
    ),
    "smith2009": Reference(
        authors="Smith, Stephen M. and Nichols, Thomas E.",
        year=2009,
        title="Threshold-free cluster enhancement: addressing problems of smoothing, threshold "
        "dependence and localisation in cluster inference",
        journal="NeuroImage",
        volume="44",
        pages="83–98",
        doi="10.1016/j.neuroimage.2008.03.061",
    ),
    "smyth2004": Reference(
        authors="Smyth, Gordon K.",
        year=2004,
        title="Linear models and empirical Bayes methods for assessing differential expression in "
        "microarray experiments",
        journal="Statistical Applications in Genetics and Molecular Biology",
        volume="3",
        pages="Article 3",
        doi="10.2202/1544-6115.1027",
    ),
    "welch1951": Reference(
        authors="Welch, B. L.",
        year=1951,
        title="On the comparison of several mean values: an alternative approach",
        journal="Biometrika",
        volume="38",
        pages="330–336",
        doi="10.1093/biomet/38.3-4.330",
    ),
    "winkler2014": Reference(
        authors="Winkler, Anderson M. and Ridgway, Gerard R. and Webster, Matthew A. and "
        "Smith, Stephen M. and Nichols, Thomas E.",
        year=2014,
        title="Permutation inference for the general linear model",
        journal="NeuroImage",
        volume="92",
        pages="381–397",
        doi="10.1016/j.neuroimage.2014.01.060",
    ),
    "zalesky2010": Reference(
        authors="Zalesky, Andrew and Fornito, Alex and Bullmore, Edward T.",
        year=2010,
        title="Network-based statistic: identifying differences in brain networks",
        journal="NeuroImage",
        volume="53",
        pages="1197–1207",
        doi="10.1016/j.neuroimage.2010.06.041",
    ),
}


class Citations:
    """Numbers of references, in the order in which a text cites them."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def __call__(self, *keys: str) -> str:
        """The numbers of some references, in brackets."""
        self.keys += [key for key in keys if key not in self.keys]
        return "[" + ", ".join(str(number) for number in sorted(map(self._number, keys))) + "]"

    def _number(self, key: str) -> int:
        return self.keys.index(key) + 1

    @property
    def texts(self) -> list[str]:
        """The references in the order of their numbers."""
        return [REFERENCES[key].text for key in self.keys]

    @property
    def bibtex(self) -> str:
        """A BibTeX file of the references."""
        return "\n\n".join(REFERENCES[key].bibtex(key) for key in self.keys)
