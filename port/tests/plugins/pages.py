"""
title: Pages
requirements: beautifulsoup4
"""

import requests
from bs4 import BeautifulSoup


class Tools:
    def pages(self, path: str) -> dict:
        """
        Read the links of a page.
        :param path: the path of the page
        """
        page = requests.get(f"https://news.example.com/{path}")
        soup = BeautifulSoup(page.content, "html.parser")
        links = []
        for link in soup.select("#news > li a[href]"):
            links.append({"text": link.get_text(" ", strip=True), "url": link["href"], "target": link.get("target", "none")})
        news = soup.find("ul", id="news")
        missing = soup.select_one("table.prices")
        return {
            "title": soup.title.string,
            "links": links,
            "first": soup.find("a", class_="hot").text.strip(),
            "count": len(soup.find_all(["h2", "a"])),
            "inside": [item.text for item in news.find_all("li")],
            "same": len(news.find_all("ul")),
            "images": [image["src"] for image in soup.find_all("img", src=True)],
            "hot": [one.name for one in soup.find_all(attrs={"class": "hot"})],
            "bold": [item.b.text if item.b else "" for item in news.select("li")],
            "missing": missing is None,
            "either": "yes" if missing else "no",
            "has": soup.find("img").has_attr("alt"),
            "text": BeautifulSoup("<p>a &amp; b</p>", "html.parser").get_text(),
        }
